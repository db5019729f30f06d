"""Runs of a sweep on a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import ray


class RayExecutor(Executor):
    """An executor that runs calls as Ray tasks.

    The executor joins the cluster at ``RAY_ADDRESS``, whose size does not change. Without this
    variable, it starts a cluster with ``jobs`` workers on this machine and stops it at the end.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self._started = not ray.is_initialized()
        if self._started:
            own: dict[str, Any] = {}
            if "RAY_ADDRESS" not in os.environ:
                # Workers find the same modules as this process, like those of a process pool.
                paths = os.pathsep.join(path for path in sys.path if path)
                own = {"num_cpus": jobs, "runtime_env": {"env_vars": {"PYTHONPATH": paths}}}
            ray.init(include_dashboard=False, log_to_driver=False, **own)
        self._task = ray.remote(_call)

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Schedules ``call(*args, **kwargs)`` on a free worker of the cluster."""
        future: Future[Any] = self._task.remote(call, args, kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnects from the cluster, and stops it if this process started it."""
        if self._started:
            ray.shutdown()
            self._started = False


def _call(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(*args, **kwargs)
