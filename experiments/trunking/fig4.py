"""Trunks share a link in proportion to their guarantees.

Source: trunking, section 7.1, experiment TT1 (a), figure 4; ledger, TT1 and A003-1, A003-2.
Differs: see `_network.py`. The prediction leaves out management packets, which take 1.2 % here.
"""

from tidegate.experiment import Experiment

from ._network import GUARANTEES, VMSS, draw, measured, network

fig4 = Experiment(__file__)

CASE = {"vmss": VMSS, "guarantee": GUARANTEES["a"]}


@fig4.run()
def measure(seed):
    return measured(network(**CASE).run(seed))


@fig4.claim("A003-1", "trunk 1, KB/s", paper=800, within=0.05)
def trunk_1(runs):
    return runs["mean_1"]


@fig4.claim("A003-1", "trunk 2, KB/s", paper=400, within=0.05)
def trunk_2(runs):
    return runs["mean_2"]


@fig4.claim("A003-1", "both, of the link", paper=1, at_least=0.97)
def link(runs):
    return runs["link"]


@fig4.claim(
    "A003-1", "deviation of one second, of the mean: trunk 1", paper="a figure", at_most=0.15
)
def steady_1(runs):
    return runs["deviation_1"]


@fig4.claim(
    "A003-1", "deviation of one second, of the mean: trunk 2", paper="a figure", at_most=0.15
)
def steady_2(runs):
    return runs["deviation_2"]


@fig4.claim("A003-2", "least of any second, of the guarantee: trunk 1", paper=1, at_least=0.98)
def guarantee_1(runs):
    return runs["least_1"] / CASE["guarantee"][0]


@fig4.claim("A003-2", "least of any second, of the guarantee: trunk 2", paper=1, at_least=0.98)
def guarantee_2(runs):
    return runs["least_2"] / CASE["guarantee"][1]


@fig4.figure
def figure(runs):
    return draw(network(**CASE).run(1))
