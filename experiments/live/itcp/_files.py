"""Sends and receives files between real hosts; a process for each client and for each server.

``receive SECONDS`` prints ``ready`` at once and receives files at `PORTS` for this time. At the end
it prints a list of ``[number, size, sojourn in seconds]``. ``send ADDRESS CLASS SECONDS SEED``
opens a connection for each file of a class of E1 at the start time of the file. It sends the file
and closes the connection. At the end it prints the number of files, and the number that it could
not send. A file begins with its number and the time of its first byte. All hosts of a lab share one
clock.
"""

import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random

PORTS = range(5001, 5017)
"""Ports of the server. A client has about 64,000 ports for connections to each server port, and
each stays in use for a minute."""

HEAD = struct.Struct("!QQ")
"""Number of the file, and nanoseconds of the clock."""

PART = 8
"""Files are this many times smaller than those of E1."""

MEANS, INDICES = (65_000, 30_000), (2.5, 1.2)
"""Mean sizes in bytes, and tail indices, of both classes of E1."""

INTERVAL = 0.1 / (2 * PART)
"""Mean seconds between two files of a class. The loads are those of E1 at twice its rate."""

CHUNK = bytes(1 << 16)
BACKLOG = 1024


def files(number: int, seconds: float, seed: str) -> Iterator[tuple[float, int]]:
    """Start in seconds and size in bytes of each file of a class."""
    chance, index = Random(f"{seed} class {number}"), INDICES[number - 1]
    least, now = MEANS[number - 1] / PART * (index - 1) / index, 0.0
    while (now := now + chance.expovariate(1 / INTERVAL)) < seconds:
        yield now, max(HEAD.size, round(least * chance.paretovariate(index)))


class Receiver:
    """Receives files at all `PORTS`."""

    def __init__(self) -> None:
        self.ready = selectors.DefaultSelector()
        self.open: dict[socket.socket, tuple[bytes, int]] = {}
        self.taken: list[tuple[int, int, float]] = []
        for port in PORTS:
            listener = socket.create_server(("", port), backlog=BACKLOG)
            listener.setblocking(False)
            self.ready.register(listener, selectors.EVENT_READ, True)

    def run(self, seconds: float) -> None:
        """Receives files until ``seconds`` have passed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self.ready.select(left):
                line = key.fileobj
                assert isinstance(line, socket.socket)
                if key.data:
                    self._accept(line)
                else:
                    self._read(line)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                line, _ = listener.accept()
                line.setblocking(False)
                self.ready.register(line, selectors.EVENT_READ, False)
                self.open[line] = (b"", 0)

    def _read(self, line: socket.socket) -> None:
        head, size = self.open[line]
        try:
            data = line.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            head, data = b"", b""
        if data:
            self.open[line] = (head + data[: HEAD.size - len(head)], size + len(data))
            return
        now = time.monotonic_ns()
        self.ready.unregister(line)
        line.close()
        del self.open[line]
        if len(head) == HEAD.size:
            number, start = HEAD.unpack(head)
            self.taken.append((number, size, (now - start) / 1e9))


def receive(seconds: str) -> None:
    receiver = Receiver()
    print("ready", flush=True)
    receiver.run(float(seconds))
    print(json.dumps(receiver.taken), flush=True)


def send(address: str, number: str, seconds: str, seed: str) -> None:
    due = list(files(int(number), float(seconds), seed))
    ready, start, failed, count = selectors.DefaultSelector(), time.monotonic(), 0, 0
    while count < len(due) or ready.get_map():
        now = time.monotonic() - start
        while count < len(due) and due[count][0] <= now:
            line = socket.socket()
            line.setblocking(False)
            head = HEAD.pack(count, time.monotonic_ns())
            line.connect_ex((address, PORTS[count % len(PORTS)]))
            ready.register(line, selectors.EVENT_WRITE, [head, due[count][1] - len(head)])
            count += 1
        wait = due[count][0] - (time.monotonic() - start) if count < len(due) else None
        for key, _ in ready.select(None if wait is None else max(0.0, wait)):
            own = key.fileobj
            assert isinstance(own, socket.socket)
            try:
                if not write(own, key.data):
                    continue
            except ConnectionError:
                failed += 1
            ready.unregister(own)
            own.close()
    print(json.dumps([len(due), failed]), flush=True)


def write(line: socket.socket, rest: list[bytes | int]) -> bool:
    """Sends more of ``rest``, a head and a number of bytes.

    Returns true when everything is sent.
    """
    head, left = rest
    assert isinstance(head, bytes) and isinstance(left, int)
    with suppress(BlockingIOError):
        if head:
            sent = line.send(head + CHUNK[: min(left, len(CHUNK))])
            rest[0], rest[1] = head[sent:], left - max(0, sent - len(head))
        else:
            rest[1] = left - line.send(CHUNK[: min(left, len(CHUNK))])
    return not rest[0] and not rest[1]


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(*sys.argv[2:])
