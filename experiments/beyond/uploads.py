"""A download and a voice stream beside uploads, on lines that are slow in one direction.

Source: trouble reports of users of other shapers: "uploads kill my download". The lines are an
ADSL line, two cable lines and a line of 1 Gbit/s. The queue of the link is the default, `hosts`,
or `fq-codel` (RFC 8290).
Differs: the gateway has the rate of the line in both directions, so that packets wait there. Two
computers are behind it. One downloads. Uploads are of the other computer or of the same one. All
flows are CUBIC with the `linux` profile. The round-trip time is 20 ms. A download is one flow.
"""

from typing import Any

import numpy as np

from tidegate import Scenario, Table, plots
from tidegate.experiment import Experiment
from tidegate.statistics import Numbers

uploads = Experiment(__file__)

LINES: dict[str, tuple[float, float, str]] = {
    "ADSL 10.8/0.83": (10.8, 0.83, "pppoe-llcsnap"),
    "250/10": (250, 10, "ethernet"),
    "300/30": (300, 30, "ethernet"),
    "1000/50": (1000, 50, "ethernet"),
}
"""Rates down and up in Mbit/s, and the overhead."""

WARMUP, DURATION = 15, 30
"""Uploads begin with the download; figures are those after the warm-up; seconds."""


def network(line: str, queue: str | None, **times: Any) -> Scenario:
    """The line with its gateway, two computers and a server."""
    down, up, overhead = LINES[line]
    rate = {"up": f"{up} Mbit/s", "down": f"{down} Mbit/s"}
    gateway: dict[str, Any] = {"lan": "lan", "wan": "wan", "rate": rate, "overhead": overhead}
    if queue:
        gateway["queue"] = queue
    net = Scenario(tcp={"profile": "linux"}, **times)
    net.gateway("edge", {"gateway": gateway})
    net.hosts("pc", "box", gateway="edge")
    net.host("server")
    net.link("edge.wan", "server", rate="10 Gbit/s", delay="10 ms")
    return net
