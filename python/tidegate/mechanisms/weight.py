"""Rate adjusters: values of ``weight`` of trunks and aggregate connections. Generated."""

from typing import Any, Literal

from tidegate.table import table


def fixed(
    *,
    samples: int | None = None,
    every: str | None = None,
    weight: float | None = None,
    least: float | None = None,
    most: Literal["connections"] | int | None = None,
    epsilon: float | None = None,
    margin: float | None = None,
    service: Literal["mean", "contended"] | None = None,
    beta: float | None = None,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    max_queue: str | None = None,
) -> dict[str, Any]:
    """The weight does not change.

    Args:
        samples: Number of samples in a round. Values: from 3 to 10000. Default: ``180``.
        every: Time between two samples, at least the round-trip time. Values: above zero.
            Default: ``"500 ms"``.
        weight: The initial weight, from ``least`` to ``most``. Values: at least 1. Default:
            ``10``.
        least: The least weight. Values: at least 1. Default: ``1``.
        most: The greatest weight: a number, or ``connections`` for the number of local
            connections. Default: ``10``.
        epsilon: With ``literal``: margin of the wanted share above the load. Values: below 1.
            Default: ``0.1``.
        margin: With ``measured``: margin of the wanted share above the load, as a part of the
            load. Values: below 1. Default: ``0.1``.
        service: With ``measured``: the samples that define the service rate. Default:
            ``"mean"``.
        beta: A decrease reduces the weight by this part. Values: below 1. Default: ``0.2``.
        low_threshold: With ``literal``: no increase while the mean queue is below this part of
            ``max_queue``. Default: ``0.2``.
        high_threshold: With ``literal``: an increase, and no decrease, while the mean queue is
            above this part of ``max_queue``. Default: ``1``.
        max_queue: With ``literal``: the queue to which the thresholds refer. Values: above
            zero. Default: ``"200 MB"``.
    """
    return table(
        "fixed",
        samples=samples,
        every=every,
        weight=weight,
        least=least,
        most=most,
        epsilon=epsilon,
        margin=margin,
        service=service,
        beta=beta,
        low_threshold=low_threshold,
        high_threshold=high_threshold,
        max_queue=max_queue,
    )


def literal(
    *,
    samples: int | None = None,
    every: str | None = None,
    weight: float | None = None,
    least: float | None = None,
    most: Literal["connections"] | int | None = None,
    epsilon: float | None = None,
    margin: float | None = None,
    service: Literal["mean", "contended"] | None = None,
    beta: float | None = None,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    max_queue: str | None = None,
) -> dict[str, Any]:
    """The slope of the gateway's queue decides, as in the paper.

    Args:
        samples: Number of samples in a round. Values: from 3 to 10000. Default: ``180``.
        every: Time between two samples, at least the round-trip time. Values: above zero.
            Default: ``"500 ms"``.
        weight: The initial weight, from ``least`` to ``most``. Values: at least 1. Default:
            ``10``.
        least: The least weight. Values: at least 1. Default: ``1``.
        most: The greatest weight: a number, or ``connections`` for the number of local
            connections. Default: ``10``.
        epsilon: With ``literal``: margin of the wanted share above the load. Values: below 1.
            Default: ``0.1``.
        margin: With ``measured``: margin of the wanted share above the load, as a part of the
            load. Values: below 1. Default: ``0.1``.
        service: With ``measured``: the samples that define the service rate. Default:
            ``"mean"``.
        beta: A decrease reduces the weight by this part. Values: below 1. Default: ``0.2``.
        low_threshold: With ``literal``: no increase while the mean queue is below this part of
            ``max_queue``. Default: ``0.2``.
        high_threshold: With ``literal``: an increase, and no decrease, while the mean queue is
            above this part of ``max_queue``. Default: ``1``.
        max_queue: With ``literal``: the queue to which the thresholds refer. Values: above
            zero. Default: ``"200 MB"``.
    """
    return table(
        "literal",
        samples=samples,
        every=every,
        weight=weight,
        least=least,
        most=most,
        epsilon=epsilon,
        margin=margin,
        service=service,
        beta=beta,
        low_threshold=low_threshold,
        high_threshold=high_threshold,
        max_queue=max_queue,
    )


def measured(
    *,
    samples: int | None = None,
    every: str | None = None,
    weight: float | None = None,
    least: float | None = None,
    most: Literal["connections"] | int | None = None,
    epsilon: float | None = None,
    margin: float | None = None,
    service: Literal["mean", "contended"] | None = None,
    beta: float | None = None,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    max_queue: str | None = None,
) -> dict[str, Any]:
    """The measured load and the measured service rate decide.

    Args:
        samples: Number of samples in a round. Values: from 3 to 10000. Default: ``180``.
        every: Time between two samples, at least the round-trip time. Values: above zero.
            Default: ``"500 ms"``.
        weight: The initial weight, from ``least`` to ``most``. Values: at least 1. Default:
            ``10``.
        least: The least weight. Values: at least 1. Default: ``1``.
        most: The greatest weight: a number, or ``connections`` for the number of local
            connections. Default: ``10``.
        epsilon: With ``literal``: margin of the wanted share above the load. Values: below 1.
            Default: ``0.1``.
        margin: With ``measured``: margin of the wanted share above the load, as a part of the
            load. Values: below 1. Default: ``0.1``.
        service: With ``measured``: the samples that define the service rate. Default:
            ``"mean"``.
        beta: A decrease reduces the weight by this part. Values: below 1. Default: ``0.2``.
        low_threshold: With ``literal``: no increase while the mean queue is below this part of
            ``max_queue``. Default: ``0.2``.
        high_threshold: With ``literal``: an increase, and no decrease, while the mean queue is
            above this part of ``max_queue``. Default: ``1``.
        max_queue: With ``literal``: the queue to which the thresholds refer. Values: above
            zero. Default: ``"200 MB"``.
    """
    return table(
        "measured",
        samples=samples,
        every=every,
        weight=weight,
        least=least,
        most=most,
        epsilon=epsilon,
        margin=margin,
        service=service,
        beta=beta,
        low_threshold=low_threshold,
        high_threshold=high_threshold,
        max_queue=max_queue,
    )


def proportional(
    *,
    samples: int | None = None,
    every: str | None = None,
    weight: float | None = None,
    least: float | None = None,
    most: Literal["connections"] | int | None = None,
    epsilon: float | None = None,
    margin: float | None = None,
    service: Literal["mean", "contended"] | None = None,
    beta: float | None = None,
    low_threshold: float | None = None,
    high_threshold: float | None = None,
    max_queue: str | None = None,
) -> dict[str, Any]:
    """The weight is the measured load, as a part of the rate of the bottleneck.

    Args:
        samples: Number of samples in a round. Values: from 3 to 10000. Default: ``180``.
        every: Time between two samples, at least the round-trip time. Values: above zero.
            Default: ``"500 ms"``.
        weight: The initial weight, from ``least`` to ``most``. Values: at least 1. Default:
            ``10``.
        least: The least weight. Values: at least 1. Default: ``1``.
        most: The greatest weight: a number, or ``connections`` for the number of local
            connections. Default: ``10``.
        epsilon: With ``literal``: margin of the wanted share above the load. Values: below 1.
            Default: ``0.1``.
        margin: With ``measured``: margin of the wanted share above the load, as a part of the
            load. Values: below 1. Default: ``0.1``.
        service: With ``measured``: the samples that define the service rate. Default:
            ``"mean"``.
        beta: A decrease reduces the weight by this part. Values: below 1. Default: ``0.2``.
        low_threshold: With ``literal``: no increase while the mean queue is below this part of
            ``max_queue``. Default: ``0.2``.
        high_threshold: With ``literal``: an increase, and no decrease, while the mean queue is
            above this part of ``max_queue``. Default: ``1``.
        max_queue: With ``literal``: the queue to which the thresholds refer. Values: above
            zero. Default: ``"200 MB"``.
    """
    return table(
        "proportional",
        samples=samples,
        every=every,
        weight=weight,
        least=least,
        most=most,
        epsilon=epsilon,
        margin=margin,
        service=service,
        beta=beta,
        low_threshold=low_threshold,
        high_threshold=high_threshold,
        max_queue=max_queue,
    )
