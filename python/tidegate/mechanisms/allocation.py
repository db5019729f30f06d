"""Allocations: values of ``allocation``. Generated."""

from typing import Any, Literal

from tidegate.table import table


def partitioned(
    *,
    depth: Literal["equal", "rtt"] | None = None,
) -> dict[str, Any]:
    """Every flow its own bucket, nothing shared.

    Args:
        depth: Basis of a member's part of the burst, besides its weight. Default: ``"equal"``.
    """
    return table(
        "partitioned",
        depth=depth,
    )


def sequential() -> dict[str, Any]:
    """One bucket; flows in the order they joined."""
    return table("sequential")


def fcfs() -> dict[str, Any]:
    """One bucket; who has waited longest goes first."""
    return table("fcfs")


def lru() -> dict[str, Any]:
    """One bucket; whom a token was given least recently goes first."""
    return table("lru")


def logical_partitions() -> dict[str, Any]:
    """One bucket with a part for each flow, by round-trip time; what is unused is shared."""
    return table("logical-partitions")


def drr() -> dict[str, Any]:
    """One bucket; byte for byte in turn."""
    return table("drr")
