"""ACK control: values of ``ack_control``. Generated."""

from typing import Any, Literal

from tidegate.table import table


def postack(
    *,
    release: Literal["bucket", "virtual-queue", "gate"] | None = None,
    max_hold: str | None = None,
    placement: Literal["auto", "upload", "download"] | None = None,
) -> dict[str, Any]:
    """Holds ACKs in place of the data that they request.

    Args:
        release: Rule that releases the next ACK. Default: ``"gate"``.
        max_hold: Longest hold of an ACK. Windows that would cause holds of more than half of it
            are reduced. Default: ``"1 s"``.
        placement: Side of the bottleneck on which the gateway is. Default: ``"auto"``.
    """
    return table(
        "postack",
        release=release,
        max_hold=max_hold,
        placement=placement,
    )


def tcr(
    *,
    placement: Literal["auto", "upload", "download"] | None = None,
    mss: str | None = None,
) -> dict[str, Any]:
    """Reduces windows to the bytes that the rate needs, and paces ACKs.

    Args:
        placement: Side of the bottleneck on which the gateway is. Default: ``"auto"``.
        mss: Largest segments that SYNs of uploads ask for, in bytes of the MSS option, for
            rates below some 10 kbit/s. Default: the option of the receiver. Values: from "88 B" to
            "65535 B".
    """
    return table(
        "tcr",
        placement=placement,
        mss=mss,
    )
