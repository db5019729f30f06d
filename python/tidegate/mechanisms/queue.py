"""Queue disciplines: values of ``queue``. Generated."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tidegate.table import table


def drop_tail(
    *,
    limit: str | None = None,
) -> dict[str, Any]:
    """One queue in order of arrival.

    When it is full, arriving packets are dropped.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"1 MiB"``.
    """
    return table(
        "drop-tail",
        limit=limit,
    )


def per_flow(
    *,
    limit: str | None = None,
    flow_limit: str | None = None,
) -> dict[str, Any]:
    """A queue for each flow, served in round robin.

    When all queues together are full, the longest queue loses packets.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"4 MiB"``.
        flow_limit: Largest backlog of one flow in frame bytes. A single packet always fits.
            Default: the bytes that the rate carries in 1 s, at most 256 KiB. With a ``marking``,
            the default is ``limit``. Values: above zero.
    """
    return table(
        "per-flow",
        limit=limit,
        flow_limit=flow_limit,
    )


def red(
    *,
    limit: str | None = None,
    min: str | None = None,
    max: str | None = None,
    max_p: str | None = None,
    weight: str | None = None,
    gentle: bool | None = None,
    wait: bool | None = None,
    ecn: bool | None = None,
    mark_up_to: str | None = None,
    measure: Literal["bytes", "packets"] | None = None,
    packet: str | None = None,
    by_size: bool | None = None,
) -> dict[str, Any]:
    """Random early detection: drops and marks become more likely as the average queue grows.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"400 kB"``.
        min: Average length below which no packet is marked or dropped. Default: ``"30 kB"``.
        max: Average length at which packets are dropped or marked with probability ``max_p``.
            More than ``min``. Default: ``"90 kB"``.
        max_p: Probability of a drop or mark at an average length of ``max``. Default:
            ``"10 %"``.
        weight: Weight of the present length in the average, which each arrival updates. Values:
            above zero. Default: ``"0.2 %"``.
        gentle: Above ``max``, the probability rises linearly to 1 at twice ``max``. If false,
            it is 1 above ``max``. Default: ``true``.
        wait: At the probability ``p``, ``1/p`` to ``2/p`` packets pass between two drops or
            marks. If false, fewer than ``1/p``. Default: ``false``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
        mark_up_to: Packets are marked while the probability is at most this value, and dropped
            above it. Default: ``"100 %"``.
        measure: Unit of the queue length: bytes or packets. Default: ``"bytes"``.
        packet: Size of a typical packet. Converts bytes and idle time into packets. Values:
            above zero. Default: ``"1514 B"``.
        by_size: Longer packets are more likely to be dropped or marked. Default: ``false``.
    """
    return table(
        "red",
        limit=limit,
        min=min,
        max=max,
        max_p=max_p,
        weight=weight,
        gentle=gentle,
        wait=wait,
        ecn=ecn,
        mark_up_to=mark_up_to,
        measure=measure,
        packet=packet,
        by_size=by_size,
    )


def ered(
    *,
    k: float | None = None,
    in_profile: Sequence[str | int] | None = None,
    red: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """RED that drops or marks packets in profile less often than packets out of profile.

    Args:
        k: Probability of a drop or mark for packets out of profile, divided by the probability
            for packets in profile. Values: at least 1. Default: ``1.5``.
        in_profile: The DS codepoints of packets in profile, by name or number. Default:
            ``["AF11", "AF21", "AF31", "AF41"]``.
        red: Parameters of RED.
    """
    return table(
        "ered",
        k=k,
        in_profile=in_profile,
        red=red,
    )


def pi(
    *,
    limit: str | None = None,
    target: str | None = None,
    every: str | None = None,
    gains: Mapping[str, Any] | None = None,
    ecn: bool | None = None,
    measure: Literal["bytes", "packets"] | None = None,
    packet: str | None = None,
    by_size: bool | None = None,
) -> dict[str, Any]:
    """A controller that holds the queue at a target length.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"300 kB"``.
        target: Target length of the queue. Default: ``"200 kB"``.
        every: Interval at which the probability is computed. Default: ``"6250 us"``.
        gains: Strength of the reaction: the coefficients ``a`` and ``b`` per packet, or the
            traffic (``flows`` and ``rtt``) from which they are computed. Default:
            ``{ flows = 60, rtt = "246 ms" }``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
        measure: Unit of the queue length: bytes or packets. Default: ``"bytes"``.
        packet: Size of a typical packet, the unit of lengths and gains. Default: ``"1514 B"``.
        by_size: Longer packets are more likely to be dropped or marked. Default: ``false``.
    """
    return table(
        "pi",
        limit=limit,
        target=target,
        every=every,
        gains=gains,
        ecn=ecn,
        measure=measure,
        packet=packet,
        by_size=by_size,
    )


def pie(
    *,
    limit: str | None = None,
    target: str | None = None,
    every: str | None = None,
    burst: str | None = None,
    ecn: bool | None = None,
    mark_up_to: str | None = None,
    packet: str | None = None,
) -> dict[str, Any]:
    """A controller that holds the queueing delay at a target.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"4 MiB"``.
        target: Target delay of packets. Values: above zero. Default: ``"15 ms"``.
        every: Interval at which the probability is computed. Values: above zero. Default:
            ``"15 ms"``.
        burst: Duration of a burst after which the first packet may be dropped or marked.
            Default: ``"150 ms"``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
        mark_up_to: Packets are marked while the probability is at most this value, and dropped
            above it. Default: ``"10 %"``.
        packet: Size of a typical packet. While at most two of them wait, no packet is dropped
            or marked. Default: ``"1514 B"``.
    """
    return table(
        "pie",
        limit=limit,
        target=target,
        every=every,
        burst=burst,
        ecn=ecn,
        mark_up_to=mark_up_to,
        packet=packet,
    )


def codel(
    *,
    limit: str | None = None,
    target: str | None = None,
    interval: str | None = None,
    packet: str | None = None,
    ecn: bool | None = None,
) -> dict[str, Any]:
    """Controlled delay: drops packets if the delay exceeds a target for longer than an interval.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"4 MiB"``.
        target: Queueing delay that is tolerated permanently. At low rates, it rises to the time
            that two full packets take. Default: ``"5 ms"``.
        interval: Time for which a longer queueing delay is tolerated: the longest usual
            round-trip time. If ``target`` rises at low rates, the interval rises by as much.
            Default: ``"100 ms"``.
        packet: Size of a full packet. While the backlog is at most this, no packet is dropped
            or marked. Default: ``"1514 B"``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
    """
    return table(
        "codel",
        limit=limit,
        target=target,
        interval=interval,
        packet=packet,
        ecn=ecn,
    )


def fq_codel(
    *,
    limit: str | None = None,
    packets: int | None = None,
    quantum: str | None = None,
    target: str | None = None,
    interval: str | None = None,
    ecn: bool | None = None,
) -> dict[str, Any]:
    """A queue for each flow, served in round robin, with controlled delay in each queue.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"32 MiB"``.
        packets: Largest number of waiting packets. Values: at least 1. Default: ``10240``.
        quantum: Bytes that a flow may send per round of the scheduler. Values: at least "256
            B". Default: ``"1514 B"``.
        target: Queueing delay that is tolerated permanently. At low rates, it rises to the time
            that two full packets take. Default: ``"5 ms"``.
        interval: Time for which a longer queueing delay is tolerated: the longest usual
            round-trip time. If ``target`` rises at low rates, the interval rises by as much.
            Default: ``"100 ms"``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
    """
    return table(
        "fq-codel",
        limit=limit,
        packets=packets,
        quantum=quantum,
        target=target,
        interval=interval,
        ecn=ecn,
    )


def hosts(
    *,
    limit: str | None = None,
    packets: int | None = None,
    quantum: str | None = None,
    target: str | None = None,
    interval: str | None = None,
    ecn: bool | None = None,
    thin_acks: bool | None = None,
) -> dict[str, Any]:
    """Hosts share the rate equally, and so do the flows of each host.

    Each flow has controlled delay, and redundant ACKs are dropped.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"32 MiB"``.
        packets: Largest number of waiting packets. Values: at least 1. Default: ``10240``.
        quantum: Bytes that a host, and each of its flows, may send per round of the scheduler.
            Values: at least "256 B". Default: ``"1514 B"``.
        target: Queueing delay that is tolerated permanently. At low rates, it rises to the time
            that two full packets take. Default: ``"5 ms"``.
        interval: Time for which a longer queueing delay is tolerated: the longest usual
            round-trip time. If ``target`` rises at low rates, the interval rises by as much.
            Default: ``"100 ms"``.
        ecn: ECN-capable packets are marked instead of being dropped. Default: ``true``.
        thin_acks: An ACK without data is dropped if the next ACK of its flow waits and
            supersedes it. Default: ``true``.
    """
    return table(
        "hosts",
        limit=limit,
        packets=packets,
        quantum=quantum,
        target=target,
        interval=interval,
        ecn=ecn,
        thin_acks=thin_acks,
    )


def sparing(
    *,
    limit: str | None = None,
    threshold: str | None = None,
) -> dict[str, Any]:
    """One queue for the flows of a trunk.

    A flow loses or gets marked packets again only after it has recovered.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"150 kB"``.
        threshold: Backlog that the queue exceeds only for a short time. A value above ``limit``
            counts as ``limit``. Values: above zero. Default: ``"50 kB"``.
    """
    return table(
        "sparing",
        limit=limit,
        threshold=threshold,
    )


def trunk_fifo(
    *,
    limit: str | None = None,
    threshold: int | None = None,
    early: bool | None = None,
) -> dict[str, Any]:
    """One queue for trunks: drops management packets early, and user packets only when it is full.

    Args:
        limit: Largest backlog in frame bytes. Values: above zero. Default: ``"1 MiB"``.
        threshold: Largest number of waiting management packets. Eight per expected connection
            are a good value. Values: at least 1. Default: ``64``.
        early: Drops or marks some management packets while more than half of ``threshold`` wait
            on average. Default: ``true``.
    """
    return table(
        "trunk-fifo",
        limit=limit,
        threshold=threshold,
        early=early,
    )
