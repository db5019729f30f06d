"""Mechanisms with their parameters, for scenarios and policies.

Generated from the declarations of the mechanisms. ``queue.red(limit="200 kB")`` is the table
``{"kind": "red", "limit": "200 kB"}``. A parameter that is not given has its default.
"""

from tidegate.mechanisms import (
    ack_control,
    allocation,
    congestion,
    marking,
    queue,
    scheduler,
    tracker,
    weight,
)

__all__ = [
    "ack_control",
    "allocation",
    "congestion",
    "marking",
    "queue",
    "scheduler",
    "tracker",
    "weight",
]
