"""Real hosts at several sites; each site's gateway has a trunk to one common gateway.

Source: trunking, section 7, experiments TT1 and TT3.
Differs: `postack/_live.py` describes labs and seeds. One emulated network connects all gateways. It
counts frames with their 14 bytes of Ethernet, so its rate is higher in proportion. Management
packets are datagrams of 74 bytes, so equation 2 gives a larger buffer. All sites send to one host.
Rates are those of user packets as the sending gateways count them. Management connections begin
with a window of one packet, like systems of the paper's time. Today's connections begin with ten
packets (RFC 6928). Eight of them would send ten packets each into the router at once, because no
line of 9.6 Mbit/s spreads them here. Equation 2 has room for nine VMSS of each connection.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidegate import Scenario

from ...trunking._network import ALPHA, CONNECTIONS, required_buffer, trunk
from ..postack._live import Lab

ETHERNET = 14
MANAGEMENT = 74 + ETHERNET
"""Length of a management packet with IPv4, in bytes."""

MTU = 1500
RATE = 9_600_000 * (MTU + ETHERNET) // MTU
"""Rate of the bottleneck, bit/s.

Of this rate, packets of 1500 bytes without Ethernet get 9.6 Mbit/s.
"""

END = 9
SINK = f"10.73.0.{END}"
"""The address of the host that all sites send to."""

KEY = "0123456789abcdef" * 4


@contextmanager
def lab_of(trunks: Sequence[Mapping[str, int]], **fields: Any) -> Iterator[Lab]:
    """A lab of :func:`sites`."""
    with secret() as key, Lab(sites(trunks, key, **fields)) as lab:
        yield lab


@contextmanager
def secret() -> Iterator[str]:
    """The path of a key file that only this user can read."""
    with TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.touch(mode=0o600)
        key.write_text(KEY)
        yield str(key)


def sites(
    trunks: Sequence[Mapping[str, int]],
    key: str,
    *,
    delay: str,
    carried: bool = True,
    buffer: float = 1,
) -> Scenario:
    """One site for each of ``trunks`` (VMSS in bytes, guarantee in KB/s), and their receiver.

    The router has ``buffer`` times the buffer of equation 2. If ``carried`` is false, there are no
    trunks, and the router is Drop-Tail.
    """
    net = Scenario(duration="1 s")
    numbers = range(1, len(trunks) + 1)
    ends = [
        tuple({**it, "key_file": key} for it in both(number, len(trunks), **trunk))
        for number, trunk in zip(numbers, trunks, strict=True)
    ]
    for number in numbers:
        net.host(f"host{number}", address=address(number), gateway=f"site{number}")
    net.host("sink", address=address(END), gateway="end")
    for number, (there, _) in zip(numbers, ends, strict=True):
        user = {"name": "user", "action": "pass", "trunk": there["name"]}
        net.gateway(f"site{number}", {"trunk": [there], "policy": [user]} if carried else {})
    net.gateway("end", {"trunk": [back for _, back in ends]} if carried else {})
    sizes = [it["vmss"] * (MTU + ETHERNET) // MTU for it in trunks]
    guaranteed = sum(it["guarantee"] for it in trunks) / 1200
    room = required_buffer(CONNECTIONS, sizes, guaranteed, MANAGEMENT)
    queue: dict[str, Any] = {"kind": "drop-tail"}
    if carried:
        queue = {"kind": "trunk-fifo", "threshold": len(trunks) * CONNECTIONS * ALPHA}
    queue["limit"] = f"{round(buffer * room)} B"
    net.route(to="sink", rate=f"{RATE} bit/s", delay=delay, queue=queue)
    net.route(delay=delay)
    return net


def address(number: int) -> list[str]:
    """Addresses of a host and of its gateway. The lab's network routes both to the host."""
    return [f"10.73.0.{number}", f"10.73.9.{number}"]


def both(
    number: int, sites: int, vmss: int, guarantee: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both ends of a site's trunk, as in policy files."""
    local, peer = f"10.73.9.{number}", f"10.73.9.{END}"
    here = trunk(f"t{number}", local, vmss, guarantee, CONNECTIONS)
    return (
        {**here, "peer": peer, "next_hop": mac(sites)},
        {**here, "local": peer, "peer": local, "next_hop": mac(number - 1)},
    )


def mac(host: int) -> str:
    """Hardware address of a host, by its index in the file."""
    return f"02:74:67:00:00:{host:02x}"


def script(lab: Lab, host: str, *words: str) -> subprocess.Popen[str]:
    """Starts the script `_hosts.py` on a host."""
    return lab.start(host, sys.executable, Path(__file__).with_name("_hosts.py"), *words)


def sent(lab: Lab, site: int) -> int:
    """User bytes that a site has sent so far."""
    (it,) = lab.ask(f"site{site}", "trunks")["trunks"]
    return int(it["elastic_bytes"] + it["guaranteed_bytes"])


def user_loss(lab: Lab) -> int:
    """User packets lost in the network: all losses except early drops of management packets."""
    return sum(count for reason, count in lab.drops().items() if reason != "aqm")
