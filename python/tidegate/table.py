"""Tables of mechanisms, as files write them."""

from typing import Any


def table(kind: str, **parameters: Any) -> dict[str, Any]:
    """The mechanism ``kind`` with those of ``parameters`` that are not ``None``.

    A trailing underscore of a name is not part of it: it keeps names from being Python keywords.
    """
    given = {name.rstrip("_"): value for name, value in parameters.items() if value is not None}
    return {"kind": kind, **given}
