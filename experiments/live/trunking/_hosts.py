"""Programs for the hosts of live experiments with trunks, which carry user packets between sites.

``flood ADDRESS RATE`` sends datagrams of 1500 bytes at this rate in bytes per second to a port. If
``count`` runs at the receiver, it listens on this port. Otherwise no process reads the datagrams.
``count`` prints the time and the number of received bytes, including frame headers, four times a
second. ``serve`` sends 8192 bytes on each new connection. ``fetch ADDRESS CLIENTS SECONDS`` runs
clients that fetch these bytes again and again. It prints the seconds of each transfer, and those of
unfinished transfers in a separate list.
"""

import json
import socket
import sys
import threading
import time

DISCARD = 9
HEADERS = 42
"""Bytes of the UDP, IPv4 and Ethernet headers."""
EVERY = 0.25

PORT = 8192
SIZE = 8192


def flood(address: str, rate: str) -> None:
    line, start, sent = socket.socket(type=socket.SOCK_DGRAM), time.monotonic(), 0
    while True:
        while sent < (time.monotonic() - start) * int(rate):
            line.sendto(bytes(1472), (address, DISCARD))
            sent += 1500
        time.sleep(0.002)


def count() -> None:
    line, got, due = socket.socket(type=socket.SOCK_DGRAM), 0, time.monotonic()
    line.bind(("", DISCARD))
    line.settimeout(0.1)
    while True:
        try:
            data, who = line.recvfrom(2048)
            if not got:
                # From the answer, bridges on the path learn where this host is.
                line.sendto(b"", who)
            got += len(data) + HEADERS
        except TimeoutError:
            pass
        if (now := time.monotonic()) >= due:
            print(json.dumps([now, got]), flush=True)
            due += EVERY


def serve() -> None:
    with socket.create_server(("", PORT), backlog=256) as listener:
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    with connection:
        connection.sendall(bytes(SIZE))


def fetch(address: str, clients: str, seconds: str) -> None:
    began: dict[int, float] = {}
    took: list[float] = []
    stop = threading.Event()

    def client(number: int) -> None:
        time.sleep(0.5 * number / int(clients))
        while not stop.is_set():
            began[number] = time.monotonic()
            try:
                with socket.create_connection((address, PORT)) as connection:
                    got = sum(len(part) for part in iter(lambda: connection.recv(SIZE), b""))
            except OSError:
                continue
            if got == SIZE and not stop.is_set():
                took.append(time.monotonic() - began[number])

    for number in range(int(clients)):
        threading.Thread(target=client, args=(number,), daemon=True).start()
    time.sleep(float(seconds))
    stop.set()
    now = time.monotonic()
    print(json.dumps({"took": took, "waiting": [now - it for it in began.values()]}), flush=True)


if __name__ == "__main__":
    {it.__name__: it for it in (flood, count, serve, fetch)}[sys.argv[1]](*sys.argv[2:])
