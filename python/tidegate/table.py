"""Tables of mechanisms, in the form that scenario and policy files use."""

from typing import Any


def table(kind: str, **parameters: Any) -> dict[str, Any]:
    """A mechanism as a table: its ``kind``, and the parameters that are not ``None``.

    Removes trailing underscores of names: the parameter ``from`` is written ``from_`` in Python.
    """
    given = {name.rstrip("_"): value for name, value in parameters.items() if value is not None}
    return {"kind": kind, **given}
