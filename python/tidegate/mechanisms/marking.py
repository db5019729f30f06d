"""Markings: values of ``marking``. Generated."""

from collections.abc import Mapping
from typing import Any, Literal

from tidegate.table import table


def reference(
    *,
    tracker: str | Mapping[str, Any] | None = None,
    k: int | None = None,
    a: float | None = None,
    rounds: int | None = None,
    interval: str | None = None,
) -> dict[str, Any]:
    """A tracker for each flow; the flow with the largest window is marked.

    Args:
        tracker: Estimator of the window and the round trips of a flow. Default: ``"two-way"``.
        k: Parameter of the tracker: a gap of more than ``RTT / k`` between packets ends a
            round. The tracker ``two-way`` uses it only until it has seen an ACK. Default: 10.
            Values: at least 1.
        a: Parameter of the tracker: weight of the old round-trip time against a new sample.
            Default: 0.9. Values: from 0 to 1.
        rounds: Most rounds of a flow that are projected, up to the longest round-trip time. The
            paper projects 1. Values: from 1 to 8. Default: ``4``.
        interval: Time over which the rate of untracked traffic is measured. Values: above zero.
            Default: ``"1 s"``.
    """
    return table(
        "reference",
        tracker=tracker,
        k=k,
        a=a,
        rounds=rounds,
        interval=interval,
    )


def heuristic(
    *,
    tracker: str | Mapping[str, Any] | None = None,
    k: int | None = None,
    a: float | None = None,
    interval: str | None = None,
    threshold: str | None = None,
    stages: int | None = None,
    buckets: int | None = None,
    rounds: Literal["next", "all"] | None = None,
) -> dict[str, Any]:
    """Trackers for the flows that pass a small filter.

    These flows represent all flows.

    Args:
        tracker: Estimator of the window and the round trips of a flow. Default: ``"two-way"``.
        k: Parameter of the tracker: a gap of more than ``RTT / k`` between packets ends a
            round. The tracker ``two-way`` uses it only until it has seen an ACK. Default: 10.
            Values: at least 1.
        a: Parameter of the tracker: weight of the old round-trip time against a new sample.
            Default: 0.9. Values: from 0 to 1.
        interval: Interval over which bytes are counted. Values: above zero. Default:
            ``"1 s"``.
        threshold: A flow that sends this many bytes within an interval passes the filter. Some
            smaller flows pass too. Values: from "1 B" to "2147483647 B". Default: ``"12500 B"``.
        stages: Stages of the filter. Values: from 1 to 16. Default: ``3``.
        buckets: Counters of a stage of the filter. Values: from 1 to 1048576. Default: ``8``.
        rounds: The rounds of a flow that the projection counts: one in each round trip, or only
            the next, as in the paper. Default: ``"all"``.
    """
    return table(
        "heuristic",
        tracker=tracker,
        k=k,
        a=a,
        interval=interval,
        threshold=threshold,
        stages=stages,
        buckets=buckets,
        rounds=rounds,
    )


def coverage(
    *,
    tracker: str | Mapping[str, Any] | None = None,
    k: int | None = None,
    a: float | None = None,
    interval: str | None = None,
    threshold: str | None = None,
    stages: int | None = None,
    buckets: int | None = None,
) -> dict[str, Any]:
    """Trackers for the flows that carry most of the bytes.

    Other traffic is counted by its rate.

    Args:
        tracker: Estimator of the window and the round trips of a flow. Default: ``"two-way"``.
        k: Parameter of the tracker: a gap of more than ``RTT / k`` between packets ends a
            round. The tracker ``two-way`` uses it only until it has seen an ACK. Default: 10.
            Values: at least 1.
        a: Parameter of the tracker: weight of the old round-trip time against a new sample.
            Default: 0.9. Values: from 0 to 1.
        interval: Interval over which bytes are counted. Values: above zero. Default:
            ``"1 s"``.
        threshold: A flow that sends this many bytes within the first interval gets a tracker.
            The threshold then follows the traffic. Values: from "1 B" to "2147483647 B". Default:
            ``"12500 B"``.
        stages: Stages of the filter. Values: from 1 to 16. Default: ``4``.
        buckets: Counters of a stage of the filter. Values: from 1 to 1048576. Default:
            ``4096``.
    """
    return table(
        "coverage",
        tracker=tracker,
        k=k,
        a=a,
        interval=interval,
        threshold=threshold,
        stages=stages,
        buckets=buckets,
    )
