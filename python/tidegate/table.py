"""Tables of mechanisms, in the form that scenario and policy files use."""

from typing import Any


def table(kind: str, **parameters: Any) -> dict[str, Any]:
    """A mechanism as a table: its ``kind``, and the parameters that are not ``None``.

    Trailing underscores of names are removed. Names that are Python keywords have one: ``from_``.
    """
    given = {name.rstrip("_"): value for name, value in parameters.items() if value is not None}
    return {"kind": kind, **given}
