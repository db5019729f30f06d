"""TCP senders and the receiver of the live experiments; one process for each host.

``receive`` reads all connections to the port, and prints ``ready``. ``send ADDRESS GREEDY ON_OFF
SEED [TOS]`` opens these numbers of greedy and on-off connections, with this type of service. Greedy
connections send without end. On-off connections send bursts of 300 segments on average. When a
burst is acknowledged, they pause for one second on average. Both have exponential distributions.
All senders use Reno of this kernel, and begin within five seconds. They end with the receiver.
"""

import array
import fcntl
import selectors
import socket
import sys
import threading
import time
from contextlib import suppress
from random import Random
from typing import NoReturn

PORT = 5001
SEGMENT = 448
"""Payload of a packet of 500 bytes with timestamps."""

BURST, PAUSE, WITHIN = 300, 1.0, 5.0

SIOCOUTQ = 0x5411
"""Request for the number of bytes that are not yet acknowledged (`man 7 tcp`)."""

LOOK = 0.02
"""Seconds between two checks whether a burst is acknowledged."""

CHUNK = bytes(1 << 16)


def data_of(line: socket.socket) -> bytes:
    """The data that has arrived. It is empty if the peer closed or reset the connection."""
    try:
        return line.recv(1 << 16)
    except ConnectionError:
        return b""


def receive() -> NoReturn:
    """Reads and discards the data of all connections to the port."""
    ready = selectors.DefaultSelector()
    listener = socket.create_server(("", PORT), backlog=1024)
    ready.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in ready.select():
            line = key.fileobj
            assert isinstance(line, socket.socket)
            if line is listener:
                ready.register(listener.accept()[0], selectors.EVENT_READ)
            elif not data_of(line):
                ready.unregister(line)
                line.close()


def connect(address: str, chance: Random, tos: int) -> socket.socket:
    """Opens a connection with Reno after a random time."""
    time.sleep(chance.uniform(0, WITHIN))
    line = socket.socket()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    line.connect((address, PORT))
    return line


def greedy(address: str, chance: Random, tos: int) -> None:
    """Sends without end."""
    line = connect(address, chance, tos)
    with suppress(ConnectionError):
        while True:
            line.sendall(CHUNK)


def bursts(address: str, chance: Random, tos: int) -> None:
    """Sends bursts. A pause follows each burst when it is acknowledged."""
    line, left = connect(address, chance, tos), array.array("i", [1])
    with suppress(ConnectionError):
        while True:
            line.sendall(bytes(SEGMENT * max(1, round(chance.expovariate(1 / BURST)))))
            left[0] = 1
            while left[0]:
                time.sleep(LOOK)
                fcntl.ioctl(line, SIOCOUTQ, left)
            time.sleep(chance.expovariate(1 / PAUSE))


def send(address: str, endless: str, on_off: str, seed: str, tos: str = "0") -> None:
    """Starts a thread for each connection."""
    for kind, count in ((greedy, endless), (bursts, on_off)):
        for number in range(int(count)):
            chance = Random(f"{seed} {kind.__name__} {number}")
            threading.Thread(target=kind, args=(address, chance, int(tos)), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    send(*sys.argv[2:])
