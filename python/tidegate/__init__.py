"""A simulator of TCP aggregates and of the gateways that manage them.

>>> import tidegate
>>> net = tidegate.Scenario(duration="10 s")

:class:`Scenario` describes a network, :class:`Result` holds the results of a run, and :func:`sweep`
makes many runs.
"""

from tidegate.result import Result, Table
from tidegate.scenario import Scenario, ScenarioError
from tidegate.statistics import Estimate, jain, max_min_index, max_min_shares
from tidegate.sweep import sweep

__all__ = [
    "Estimate",
    "Result",
    "Scenario",
    "ScenarioError",
    "Table",
    "jain",
    "max_min_index",
    "max_min_shares",
    "sweep",
]
