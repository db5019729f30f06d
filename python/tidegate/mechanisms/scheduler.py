"""Schedulers: values of ``scheduler``. Generated."""

from typing import Any, Literal

from tidegate.table import table


def class_tree() -> dict[str, Any]:
    """A tree of classes with guarantees, ceilings, weights and delay bounds.

    Each class has its own queue.
    """
    return table("class-tree")


def jobs(
    *,
    victim: Literal["furthest", "ns2"] | None = None,
    output: Literal["arrivals", "continuous"] | None = None,
) -> dict[str, Any]:
    """JoBS: bounds and ratios of delay and loss for classes that share one buffer.

    Args:
        victim: Search of a full buffer for the class that is furthest below its loss bound.
            ``ns2`` takes the last backlogged class, as a fault in ns-2 does, for comparison.
            Default: ``"furthest"``.
        output: Events at which the theoretical output of a class grows: transmissions of the
            link (``continuous``), or arrivals of the class, as in the authors' code, for
            comparison. Default: ``"continuous"``.
    """
    return table(
        "jobs",
        victim=victim,
        output=output,
    )
