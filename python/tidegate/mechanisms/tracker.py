"""Trackers of markings: values of ``tracker`` of a marking. Generated."""

from typing import Any

from tidegate.table import table


def two_way(
    *,
    k: int | None = None,
    a: float | None = None,
) -> dict[str, Any]:
    """Compares the sequence numbers of data and ACKs.

    It sees both directions.

    Args:
        k: A gap of more than ``RTT / k`` between packets ends a round. Values: at least 1.
            Default: ``10``.
        a: Weight of the old round-trip time against a new sample. Values: from 0 to 1. Default:
            ``0.9``.
    """
    return table(
        "two-way",
        k=k,
        a=a,
    )


def paper(
    *,
    k: int | None = None,
    a: float | None = None,
) -> dict[str, Any]:
    """Counts packets; a gap between two packets ends a round.

    It sees one direction.

    Args:
        k: A gap of more than ``RTT / k`` between packets ends a round. Values: at least 1.
            Default: ``10``.
        a: Weight of the old round-trip time against a new sample. Values: from 0 to 1. Default:
            ``0.9``.
    """
    return table(
        "paper",
        k=k,
        a=a,
    )


def paper_idle(
    *,
    k: int | None = None,
    a: float | None = None,
) -> dict[str, Any]:
    """Like ``paper``, but a gap of more than two round trips gives no round-trip sample.

    Args:
        k: A gap of more than ``RTT / k`` between packets ends a round. Values: at least 1.
            Default: ``10``.
        a: Weight of the old round-trip time against a new sample. Values: from 0 to 1. Default:
            ``0.9``.
    """
    return table(
        "paper+idle",
        k=k,
        a=a,
    )
