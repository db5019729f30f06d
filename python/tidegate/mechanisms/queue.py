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
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"1 MiB"``.
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
    """A queue for each flow, served in turn.

    When all is full, the longest queue loses packets.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"4 MiB"``.
        flow_limit: Largest backlog of one flow in frame bytes. A single packet always fits.
            Default: the bytes that the rate carries in 1 s, at most 256 KiB; with a ``marking``,
            ``limit``. Values: above zero.
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
    """Random early detection: drops and marks become likelier as the average queue grows.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"400 kB"``.
        min: Average length below which no packet is marked or dropped. Default: ``"30 kB"``.
        max: Average length at which packets are hit with probability ``max_p``; more than
            ``min``. Default: ``"90 kB"``.
        max_p: Probability of a hit at an average of ``max``. Default: ``"10 %"``.
        weight: Weight of the length at each arrival in the average. Values: above zero.
            Default: ``"0.2 %"``.
        gentle: Above ``max`` the probability rises to 1 at twice ``max``. If false, it is 1 at
            once. Default: ``true``.
        wait: From ``1/p`` to ``2/p`` packets lie between two hits. If false, less than ``1/p``.
            Default: ``false``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
        mark_up_to: Packets are marked while the probability is at most this value, and dropped
            above it. Default: ``"100 %"``.
        measure: Unit of the queue length: bytes or packets. Default: ``"bytes"``.
        packet: Size of a typical packet. Converts bytes and idle time into packets. Values:
            above zero. Default: ``"1514 B"``.
        by_size: Longer packets are more likely to be hit. Default: ``false``.
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
    """RED that marks or drops packets in profile less often.

    Args:
        k: Ratio of the probabilities out of profile and in profile. Values: at least 1.
            Default: ``1.5``.
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
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"300 kB"``.
        target: Target length of the queue. Default: ``"200 kB"``.
        every: Interval of the ticks that compute the probability. Default: ``"6250 us"``.
        gains: Strength of the reaction: the coefficients ``a`` and ``b`` per packet, or
            ``flows`` and ``rtt`` for a design. Default: ``{ flows = 60, rtt = "246 ms" }``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
        measure: Unit of the queue length: bytes or packets. Default: ``"bytes"``.
        packet: Size of a typical packet, the unit of lengths and gains. Default: ``"1514 B"``.
        by_size: Longer packets are more likely to be hit. Default: ``false``.
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
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"4 MiB"``.
        target: Target delay of packets. Values: above zero. Default: ``"15 ms"``.
        every: Interval of the ticks that compute the probability. Values: above zero. Default:
            ``"15 ms"``.
        burst: Length of a burst before the first hit. Default: ``"150 ms"``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
        mark_up_to: Packets are marked while the probability is at most this value, and dropped
            above it. Default: ``"10 %"``.
        packet: Size of a typical packet. With at most two of them in the queue, no packet is
            hit. Default: ``"1514 B"``.
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
    """Controlled delay: the queueing delay may exceed a target for one interval only.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"4 MiB"``.
        target: Tolerated sojourn time on a busy link. At low rates it is at least the time of
            two packets. Default: ``"5 ms"``.
        interval: Time for which packets may exceed the target: the longest usual round-trip
            time. It grows with the target. Default: ``"100 ms"``.
        packet: Size of a full packet. A backlog of at most one is never hit. Default:
            ``"1514 B"``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
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
    """A queue for each flow, served in turn, with controlled delay in each.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"32 MiB"``.
        packets: Most packets that may wait. Values: at least 1. Default: ``10240``.
        quantum: Bytes that a flow may send in a round. Values: at least "256 B". Default:
            ``"1514 B"``.
        target: Tolerated sojourn time of a busy flow. At low rates it is at least the time of
            two packets. Default: ``"5 ms"``.
        interval: Time for which packets may exceed the target: the longest usual round-trip
            time. It grows with the target. Default: ``"100 ms"``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
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
    """Hosts take turns, and so do the flows of a host, with controlled delay in each flow.

    Redundant ACKs are dropped.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"32 MiB"``.
        packets: Most packets that may wait. Values: at least 1. Default: ``10240``.
        quantum: Bytes a host, and each of its flows, may send in one turn. Values: at least
            "256 B". Default: ``"1514 B"``.
        target: Tolerated sojourn time of a busy flow. At low rates it is at least the time of
            two packets. Default: ``"5 ms"``.
        interval: Time for which packets may exceed the target: the longest usual round-trip
            time. It grows with the target. Default: ``"100 ms"``.
        ecn: ECN-capable packets are marked in place of being dropped. Default: ``true``.
        thin_acks: ACKs without data that acknowledge nothing new are dropped. Default:
            ``true``.
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

    A flow is signalled again only after it has recovered.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"150 kB"``.
        threshold: Intended largest backlog, exceeded for a short time only. A value above
            ``limit`` acts like ``limit``. Values: above zero. Default: ``"50 kB"``.
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
    """One queue for trunks: it drops management packets early, and user packets only when full.

    Args:
        limit: Most bytes that may wait, as frames. Values: above zero. Default: ``"1 MiB"``.
        threshold: Most management packets in the queue: eight for each expected connection.
            Values: at least 1. Default: ``64``.
        early: Drops or marks some management packets from half of ``threshold`` on. Default:
            ``true``.
    """
    return table(
        "trunk-fifo",
        limit=limit,
        threshold=threshold,
        early=early,
    )
