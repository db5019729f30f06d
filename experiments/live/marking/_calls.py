"""Sends and receives voice calls of a live experiment: UDP at a constant rate.

``send ADDRESS BITS TOS`` sends packets of 500 B without end, at a rate of ``BITS`` bit/s.
``receive SECONDS`` prints ``ready``, receives packets for this time, and prints a line of JSON: the
loss, the fraction of packets that waited longer than 10 ms, and the 99 % quantile of the waiting
time. Sender and receiver share one clock.
"""

import json
import socket
import struct
import sys
import time
from typing import NoReturn

PORT, LENGTH, HEADERS = 5002, 500, 28
BOUND = 0.010
HEAD = struct.Struct("!Qq")
"""Number of a packet, and its departure time in nanoseconds."""


def send(address: str, bits: int, tos: int) -> NoReturn:
    """Sends packets at ``bits`` per second with this type of service."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    every = round(LENGTH * 8 / bits * 1e9)
    due, number, rest = time.monotonic_ns(), 0, bytes(LENGTH - HEADERS - HEAD.size)
    while True:
        due += every
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        line.sendto(HEAD.pack(number, time.monotonic_ns()) + rest, (address, PORT))
        number += 1


def receive(seconds: float) -> None:
    """Receives packets, and prints their loss and waiting times."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    line.bind(("", PORT))
    print("ready", flush=True)
    numbers, delays = [], []
    line.settimeout(seconds)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        number, sent = HEAD.unpack_from(line.recv(LENGTH))
        numbers.append(number)
        delays.append((time.monotonic_ns() - sent) / 1e9)
    least = min(delays)
    waited = sorted(it - least for it in delays)
    figures = {
        "loss": 1 - len(numbers) / (max(numbers) - min(numbers) + 1),
        "late": sum(it > BOUND for it in waited) / len(waited),
        "delay": waited[len(waited) * 99 // 100],
        "calls": len(numbers) * LENGTH * 8 / seconds,
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(float(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
