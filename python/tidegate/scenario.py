"""Scenarios: a network, its gateways, and the traffic through it.

A :class:`Scenario` has the same content as a scenario file in TOML, with the same names and units.
``to_toml`` and ``from_toml`` convert. Quantities are written with their unit, as in the files:
``"8 Mbit/s"``, ``"25 ms"``, ``"32 kB"``, ``"0.1 %"``. A bare number is an error.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Self, TypeAlias

from tidegate import _native
from tidegate.result import Result

Names: TypeAlias = str | Sequence[str]
"""A node, or several."""

Value: TypeAlias = str | int | bool | Sequence[str] | Mapping[str, Any]
"""The value of a scenario's field: a quantity, a name, a count, or a table."""


class ScenarioError(ValueError):
    """A scenario that cannot be simulated. The message names the field and the correct values."""


@dataclass
class Scenario:
    """A scenario to simulate.

    Nodes are identified by their names. Each field of a scenario file is a keyword argument with
    the same name, so the reference of scenario files also applies to these methods.

    >>> net = Scenario(duration="10 s")
    >>> net.hosts("server", "client")
    >>> net.link("server", "client", rate="10 Mbit/s", delay="10 ms")
    >>> net.traffic("download", "greedy", "server", "client")
    >>> run = net.run(seed=1)
    >>> len(run.flows)
    1
    """

    duration: str
    """Virtual time to simulate."""
    warmup: str | None = None
    """Time at the start of the run that the statistics leave out. Default: nothing."""
    sample: str | None = None
    """Interval between samples of time series. Default: a 300th of the duration."""
    tcp: Value | None = None
    """TCP of all hosts: ``{"profile": "rfc", "congestion": "newreno"}``."""
    link_header: str | None = None
    """Link-layer header that counts in packet lengths. Default: ``"14 B"``, as for Ethernet."""
    name: str | None = None
    """The name of the scenario in reports."""
    tables: dict[str, Any] = field(default_factory=dict)
    """All other tables, as in the file."""

    def host(self, name: str, **fields: Value) -> None:
        """Adds a host; ``gateway="edge"`` connects it to the LAN side of a gateway."""
        self._add("host", {"name": name, **fields})

    def hosts(self, *names: str, **fields: Value) -> None:
        """Adds several hosts that differ only in their names."""
        for name in names:
            self.host(name, **fields)

    def router(self, *names: str) -> None:
        """Adds a router, or several."""
        for name in names:
            self._add("router", {"name": name})

    def gateway(self, name: str, policy: str | Path | Mapping[str, Any], **fields: Value) -> None:
        """Adds a gateway with ports ``NAME.lan`` and ``NAME.wan``.

        A field ``gateway`` connects it to the LAN side of another gateway.

        ``policy`` is the text of a policy file, the path of one, or its tables as a mapping:
        ``{"policy": [{"name": "web", "profile": {"mean": "8 Mbit/s"}, ...}]}``. Its ports need not
        be named; they are called ``lan`` and ``wan``.
        """
        if isinstance(policy, Path):
            policy = policy.read_text()
        if not isinstance(policy, str):
            ports = {"lan": "lan", "wan": "wan", **policy.get("gateway", {})}
            place = f"gateway[{len(self.tables.get('gateway', []))}].policy"
            policy = _to_toml({**policy, "gateway": ports}, place)
        self._add("gateway", {"name": name, "inline": policy, **fields})

    def link(self, a: str, b: str, **fields: Value) -> None:
        """Adds a link between two nodes, with the same properties in both directions.

        Fields: ``rate`` (default: infinite), ``delay`` (one way), ``jitter``, ``loss``, ``queue``
        (a queue discipline by name, or a table with its ``kind`` and parameters). ``back`` has the
        fields that differ from ``b`` to ``a``; ``back=False`` makes a link in one direction.
        """
        self._add("link", {"from": a, "to": b, **fields})

    def route(self, **fields: Value) -> None:
        """Adds a route through the cloud, which connects hosts and gateways without a link."""
        self._add("route", fields)

    def traffic(
        self, name: str, kind: str, sender: Names, receiver: Names, **fields: Value
    ) -> None:
        """Adds traffic from ``sender`` to ``receiver``, a group of flows with this ``name``.

        ``kind``: greedy, file, on-off, web, arrivals, cbr, trace, relay or aggregate. Several
        senders and receivers are paired in order. A single sender is paired with all receivers, and
        a single receiver with all senders. Further fields have the names of the file: ``flows`` (of
        each pair), ``start``, ``stop``.

        A relay forwards the traffic ``of``, added before it. ``buffer`` limits the waiting data of
        a flow::

            net.traffic("bulk", "greedy", "client", "middle")
            net.traffic("onward", "relay", "middle", "server", of="bulk", buffer="64 KiB")

        An aggregate carries the data of all traffic in ``of`` over one connection. Its weight
        may follow the load::

            net.traffic("files", "arrivals", "client", "middle", every="1 s", size="65 kB")
            net.traffic("long", "aggregate", "middle", "server", of="files", weight="measured")
        """
        pairs = {"from": _list(sender), "to": _list(receiver)}
        self._add("traffic", {"name": name, "kind": kind, **pairs, **fields})

    def probe(self, kind: str, *ends: str, **fields: Value) -> None:
        """Adds a probe, which records more than the defaults.

        ``kind``: queue or capture, with the two ends of a link in the recorded direction
        (``net.probe("queue", "middle", "client")``); throughput or window, with ``traffic``;
        passage, with ``gateway`` and ``direction``; aggregate, with ``traffic``.
        """
        if ends and len(ends) != 2:
            raise TypeError(f"a probe is between two ends of a link, not {len(ends)}: {ends}")
        self._add(
            "probe", {"kind": kind, **dict(zip(("from", "to"), ends, strict=False)), **fields}
        )

    def change(self, at: str, a: str, b: str, **fields: Value) -> None:
        """Changes the link from ``a`` to ``b``, in this direction only, at a time of the run.

        ``delay`` and ``rate`` apply from then on. Packets on the link arrive at their old time.
        """
        self._add("change", {"at": at, "from": a, "to": b, **fields})

    def run(self, seed: int = 1) -> Result:
        """Simulates the scenario. The same seed gives the same result, bit for bit, on any machine.

        Raises:
            ScenarioError: the scenario cannot be simulated; the message names the field.
            KeyboardInterrupt: on Ctrl-C, also in the middle of a run. An exception from another
                signal handler ends the run as well, and keeps its type.
        """
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed <= _MOST_SEED:
            raise ScenarioError(f"seed: {seed!r} is no seed; write a whole number, 0 to 2**64 - 1")
        try:
            return Result(_native.run(self.to_toml(), int(seed)), int(seed))
        except _native.Invalid as error:
            raise ScenarioError(str(error)) from None

    def check(self) -> None:
        """Raises a :class:`ScenarioError` if the scenario cannot be simulated."""
        try:
            _native.check(self.to_toml())
        except _native.Invalid as error:
            raise ScenarioError(str(error)) from None

    def to_toml(self) -> str:
        """The scenario as a file for ``tidegate sim`` and ``tidegate lab``."""
        run = {name: value for name in _RUN if (value := getattr(self, name)) is not None}
        head = {"name": self.name} if self.name is not None else {}
        return _to_toml({**self.tables, **head, "run": {**self.tables.get("run", {}), **run}})

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Parses the text of a file. :meth:`check` finds out whether the scenario is valid."""
        tables = tomllib.loads(text)
        name, run = tables.pop("name", None), tables.get("run", {})
        return cls(**{field: run.pop(field, None) for field in _RUN}, name=name, tables=tables)

    def _add(self, table: str, fields: Mapping[str, Value]) -> None:
        self.tables.setdefault(table, []).append(dict(fields))


_RUN = ("duration", "warmup", "sample", "link_header", "tcp")
"""The fields of a scenario in the table ``[run]`` of a file."""


def _list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _to_toml(tables: Mapping[str, Any], place: str = "") -> str:
    return _native.to_toml(json.dumps(_plain(tables, place)))


def _plain(value: Any, place: str) -> Any:
    """Converts ``value`` to the types of TOML. ``place`` names its field in errors."""
    match value:
        case str() | bool():
            return value
        case Mapping():
            inner = f"{place}." if place else ""
            return {str(name): _plain(each, f"{inner}{name}") for name, each in value.items()}
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return [_plain(each, f"{place}[{number}]") for number, each in enumerate(value)]
        case Integral():
            if abs(int(value)) <= _MOST_WHOLE:
                return int(value)
            raise ScenarioError(f"{place}: {value!r} is too large; write at most 2**63 - 1")
        case float() if math.isfinite(value):
            return float(value)
        case None:
            raise ScenarioError(f"{place}: None is no value; leave the field out for its default")
    raise ScenarioError(
        f"{place}: {value!r} is no value; write a whole number, a quantity as text"
        ' such as "10 Mbit/s", a list or a table'
    )


_MOST_WHOLE = 2**63 - 1
"""The largest whole number of TOML (version 1.0.0, section Integer)."""

_MOST_SEED = 2**64 - 1
"""The largest seed. Seeds have 64 bits, as in ``tidegate_sim::scenario::Run``."""
