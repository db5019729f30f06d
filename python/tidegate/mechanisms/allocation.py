"""Allocations: values of ``allocation``. Generated."""

from typing import Any, Literal

from tidegate.table import table


def partitioned(
    *,
    depth: Literal["equal", "rtt"] | None = None,
) -> dict[str, Any]:
    """Each flow has its own bucket, and shares no tokens.

    Args:
        depth: The property, other than the weight, that determines a member's part of the
            burst. Default: ``"equal"``.
    """
    return table(
        "partitioned",
        depth=depth,
    )


def sequential() -> dict[str, Any]:
    """One bucket; flows are served in the order of their list."""
    return table("sequential")


def fcfs() -> dict[str, Any]:
    """One bucket; the flow that has waited longest is served first."""
    return table("fcfs")


def lru() -> dict[str, Any]:
    """One bucket; the flow that was served least recently is served first."""
    return table("lru")


def logical_partitions() -> dict[str, Any]:
    """One bucket with a part for each flow, by round-trip time.

    Flows share unused tokens.
    """
    return table("logical-partitions")


def drr() -> dict[str, Any]:
    """One bucket; flows send bytes in proportion to their weights (deficit round robin)."""
    return table("drr")
