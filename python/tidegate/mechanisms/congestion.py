"""Congestion controls: values of ``tcp.congestion``. Generated."""

from collections.abc import Mapping
from typing import Any, Literal

from tidegate.table import table


def reno(
    *,
    counting: Literal["acks"] | Mapping[str, Any] | None = None,
    beta: float | None = None,
    beta_ecn: float | None = None,
) -> dict[str, Any]:
    """Additive increase, multiplicative decrease, with byte counting (RFC 5681, RFC 3465).

    Args:
        counting: The unit of growth. Default: the unit of the sender's profile.
        beta: Factor of the window after a loss (RFC 5681). Values: at most 1. Default: ``0.5``.
        beta_ecn: Factor of the window after ECN-Echo (RFC 3168). 0.8 is the alternative backoff
            of RFC 8511. Values: at most 1. Default: ``0.5``.
    """
    return table(
        "reno",
        counting=counting,
        beta=beta,
        beta_ecn=beta_ecn,
    )


def newreno() -> dict[str, Any]:
    """NewReno as in ns-2: one segment per round trip, counted in ACKs."""
    return table("newreno")


def cubic(
    *,
    c: float | None = None,
    beta: float | None = None,
    beta_ecn: float | None = None,
    fast_convergence: bool | None = None,
    hystart: bool | None = None,
) -> dict[str, Any]:
    """Growth by a cubic function of time, and HyStart++ (RFC 9438, RFC 9406).

    Args:
        c: ``C``, in segments per second cubed. Default: ``0.4``.
        beta: Factor of the window after a loss. Values: at most 1. Default: ``0.7``.
        beta_ecn: Factor of the window after ECN-Echo; 0.85 is the alternative backoff of RFC
            8511. Values: at most 1. Default: ``0.7``.
        fast_convergence: Fast convergence: a flow whose share shrinks yields faster. Default:
            ``true``.
        hystart: The first slow start uses HyStart++. Default: ``true``.
    """
    return table(
        "cubic",
        c=c,
        beta=beta,
        beta_ecn=beta_ecn,
        fast_convergence=fast_convergence,
        hystart=hystart,
    )


def vegas(
    *,
    alpha: float | None = None,
    beta: float | None = None,
    gamma: float | None = None,
    double_every: int | None = None,
    after_loss: float | None = None,
) -> dict[str, Any]:
    """Keeps a fixed number of its own segments in the queue.

    Args:
        alpha: The window grows if fewer segments than this are queued. Linux has 2, ns-2 has 1.
            Default: ``2``.
        beta: The window shrinks if more segments than this are queued. Linux has 4, ns-2 has 3.
            Default: ``4``.
        gamma: Slow start ends if more segments than this are queued. Default: ``1``.
        double_every: In slow start the window doubles once per this many round trips. The paper
            of Vegas and ns-2 have 2. Default: ``1``.
        after_loss: Factor of the window after a loss or ECN-Echo. ns-2 uses 0.75 for a segment
            lost once. Values: at most 1. Default: ``0.5``.
    """
    return table(
        "vegas",
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        double_every=double_every,
        after_loss=after_loss,
    )


def vegas_ns2(
    *,
    alpha: float | None = None,
    beta: float | None = None,
    gamma: float | None = None,
    theta: float | None = None,
) -> dict[str, Any]:
    """Vegas as in ns-2, with the weight of ``itcp``.

    Args:
        alpha: The window grows if fewer segments than this are queued. Default: ``1``.
        beta: The window shrinks if more segments than this are queued. Default: ``3``.
        gamma: Slow start ends if more segments than this are queued. Default: ``1``.
        theta: The weight. It may change during the connection. Default: ``1``.
    """
    return table(
        "vegas-ns2",
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        theta=theta,
    )


def weighted_vegas(
    *,
    theta: float | None = None,
    alpha: float | None = None,
    gamma: float | None = None,
    double_every: int | None = None,
    step: Literal["bounded", "whole"] | None = None,
    after_loss: float | None = None,
) -> dict[str, Any]:
    """Vegas with shares in proportion to weights (``itcp``).

    Args:
        theta: The weight. It may change during the connection. Default: ``1``.
        alpha: Segments kept in the queue for each unit of weight. Default: ``2``.
        gamma: Slow start ends when more than ``gamma * theta`` segments are queued. Default:
            ``1``.
        double_every: In slow start the window doubles once per this many round trips. The paper
            of Vegas has 2. Default: ``2``.
        step: Change of the window, once per round trip. Default: ``"bounded"``.
        after_loss: Factor of the window after a loss or ECN-Echo. Values: at most 1. Default:
            ``0.5``.
    """
    return table(
        "weighted-vegas",
        theta=theta,
        alpha=alpha,
        gamma=gamma,
        double_every=double_every,
        step=step,
        after_loss=after_loss,
    )


def weighted_reno(
    *,
    theta: float | None = None,
) -> dict[str, Any]:
    """Reno with shares in proportion to weights.

    Args:
        theta: The weight; below 1 it counts as 1. It may change during the connection. Default:
            ``1``.
    """
    return table(
        "weighted-reno",
        theta=theta,
    )


def aggregate_fair(
    *,
    omega: float | None = None,
) -> dict[str, Any]:
    """Growth by the square of the round-trip time: equal rates within an aggregate.

    Args:
        omega: The aggregate is as fast as this many connections with the mean round-trip time.
            Default: the number of its connections.
    """
    return table(
        "aggregate-fair",
        omega=omega,
    )


def increase_by_k(
    *,
    k: float | None = None,
    from_: str | None = None,
) -> dict[str, Any]:
    """Growth by several segments per round trip for connections with a long round-trip time.

    Args:
        k: Segments per round trip by which the window grows. Default: ``4``.
        from_: Least round-trip time with growth by ``k``. Default: the mean of the aggregate,
            or 100 ms until the mean is known.
    """
    return table(
        "increase-by-k",
        k=k,
        from_=from_,
    )


def dctcp(
    *,
    gain: float | None = None,
    alpha: float | None = None,
) -> dict[str, Any]:
    """Reduction in proportion to the marked part of the data (RFC 8257).

    Args:
        gain: Weight of the newest window in the estimate. Values: at most 1. Default:
            ``0.0625``.
        alpha: The estimate before the first window. With 1, all bytes count as marked. Values:
            at most 1. Default: ``1``.
    """
    return table(
        "dctcp",
        gain=gain,
        alpha=alpha,
    )


def bbr(
    *,
    min_rtt_window: str | None = None,
    probe_rtt_time: str | None = None,
    detect_policers: bool | None = None,
) -> dict[str, Any]:
    """Measures the rate and the round-trip time of the path (version 1, as in Linux).

    Args:
        min_rtt_window: Age at which the least round-trip time is measured again. Default:
            ``"10 s"``.
        probe_rtt_time: Least time with four segments in flight for that measurement. Default:
            ``"200 ms"``.
        detect_policers: Policers on the path are detected. Default: ``true``.
    """
    return table(
        "bbr",
        min_rtt_window=min_rtt_window,
        probe_rtt_time=probe_rtt_time,
        detect_policers=detect_policers,
    )


def copa(
    *,
    target: int | None = None,
    after_loss: float | None = None,
) -> dict[str, Any]:
    """Keeps few segments in the queue, and measures them by their delay (Copa).

    Args:
        target: Target of segments in the queue, 1 / delta. Default: ``2``.
        after_loss: Window after a loss or an ECN-Echo, as a part of the bytes in flight.
            Values: at most 1. Default: ``0.5``.
    """
    return table(
        "copa",
        target=target,
        after_loss=after_loss,
    )


def constant(
    *,
    rate: str | None = None,
) -> dict[str, Any]:
    """A constant rate despite losses: a sender that ignores congestion.

    Args:
        rate: Rate of payload. Default: ``"10 Mbit/s"``.
    """
    return table(
        "constant",
        rate=rate,
    )
