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
        victim: Rule that selects the class that drops a packet when the buffer is full.
            ``furthest`` selects the class that is furthest below its loss bound. ``ns2`` selects
            the last backlogged class, as a fault in ns-2 does, for comparison. Default:
            ``"furthest"``.
        output: Events at which the theoretical output of a class (the bytes that it should have
            sent at its rate) grows: transmissions of the link (``continuous``), or arrivals of the
            class (``arrivals``), as in the authors' code, for comparison. Default:
            ``"continuous"``.
    """
    return table(
        "jobs",
        victim=victim,
        output=output,
    )
