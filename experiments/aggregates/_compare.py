"""What one setting gives over another with the same seed: figures 7, 8 and 11.

Source: aggregates, sections 4.2.2 and 4.2.3.
Differs: the paper's network has a source of background traffic, of which it says nothing: where
connections are policed, figures 8 and 11 are made without any, and with four endless downloads of
others on the access link. That the gain is beyond 1 is the paper's; so is no number.
"""

from tidegate import Table
from tidegate.experiment import Experiment

OTHERS = {0: "", 4: ", four others on the access link"}
"""Downloads of others, and how claims say that they are there."""

ONE_BY_ONE = {"kind": "partitioned", "depth": "rtt"}


def over(runs: Table, under: Table, column: str):
    """A ratio for each seed that both have."""
    count = min(len(runs), len(under))
    assert (runs["seed"][:count] == under["seed"][:count]).all()
    return runs[column][:count] / under[column][:count]


def gain(runs: Table, policed: str, column: str, cross: int):
    """Of policing so over policing one by one."""
    return over(*(runs.where(policed=it, cross=cross) for it in (policed, "one by one")), column)


def claim_gains(figure: Experiment, ref: str, policed: str) -> None:
    """That more goes out, in all and in profile: with and without others."""
    for cross, place in OTHERS.items():
        for column, what in (("total", "total"), ("compliant", "compliant")):

            def measured(runs, column=column, cross=cross):
                return gain(runs, policed, f"{column}_bps", cross)

            measured.__name__ = f"{column}_cross" if cross else column
            figure.claim(
                f"{ref}{place}",
                f"{what} throughput, {policed} over one by one",
                paper="> 1",
                at_least=1,
                margin=0.02 if cross else 0.005,
            )(measured)
