"""The steady state of TCP at a given loss rate, by two published formulas."""

from math import sqrt


def mathis(p: float, round_trip: float, segments_per_ack: int) -> float:
    """Segments per second. Source: Mathis, Semke, Mahdavi, Ott, CCR 27(3), 1997, equation 3."""
    return sqrt(3 / (2 * segments_per_ack * p)) / round_trip


def padhye(
    p: float,
    round_trip: float,
    segments_per_ack: int,
    timeout: float = 1.0,
    lost_together: bool = True,
) -> float:
    """Segments per second that a sender without a window limit sends.

    Source: Padhye, Firoiu, Towsley, Kurose, SIGCOMM 1998, equation 31. The formula assumes that
    after a lost segment all later segments of its round are lost too, so a loss often ends in a
    timeout. Without this assumption (`lost_together` is false), losses are independent. A loss then
    ends in a timeout only if the retransmission is lost as well.
    """
    b = segments_per_ack
    window = (2 + b) / (3 * b) + sqrt(8 * (1 - p) / (3 * b * p) + ((2 + b) / (3 * b)) ** 2)
    ends = p
    if lost_together:
        alone = (1 - (1 - p) ** 3) * (1 + (1 - p) ** 3 * (1 - (1 - p) ** (window - 3)))
        ends = min(1.0, alone / (1 - (1 - p) ** window))
    backoff = 1 + p + 2 * p**2 + 4 * p**3 + 8 * p**4 + 16 * p**5 + 32 * p**6
    segments = (1 - p) / p + window + ends / (1 - p)
    seconds = round_trip * (b / 2 * window + 1) + ends * timeout * backoff / (1 - p)
    return segments / seconds
