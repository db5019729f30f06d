"""Short forms of the experiments of the paper `itcp`: one seed each, the same bounds."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SEED = 1


@pytest.fixture
def of_paper(monkeypatch):
    """Loads an experiment by its name."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    return lambda name, folder="itcp": import_module(f"experiments.{folder}.{name}")


def test_files_that_share_a_server_slow_down_by_one_minus_its_load(of_paper):
    """Catches: a virtual time that is not divided by the number of files."""
    load, fluid = of_paper("_load"), of_paper("_fluid")
    own = load.files((load.Class(65_000, 2.5),), 5_000, SEED)
    slowdown = ((fluid.processor_sharing(own.time, own.work) - own.time) / own.work).mean()
    assert slowdown == pytest.approx(1 / (1 - 0.52), rel=0.03)


def test_equal_aggregates_of_one_file_each_are_processor_sharing(of_paper):
    """Catches: an idle aggregate that keeps its share; a finished file whose work still counts."""
    load, fluid, adjust = (of_paper(it) for it in ("_load", "_fluid", "_adjust"))
    rng = np.random.default_rng(SEED)
    time, work = np.sort(rng.uniform(0, 100, 40)), rng.exponential(2, 40)
    alone = load.Files(time, work, np.arange(40))
    shared = fluid.share_by_weight(alone, [adjust.Fixed() for _ in range(40)], 1_000)
    assert shared.departed == pytest.approx(fluid.processor_sharing(time, work))
    together = load.Files(time, work, np.zeros(40, dtype=int))
    one = fluid.share_by_weight(together, [adjust.Fixed()], 1_000)
    assert one.departed == pytest.approx(fluid.processor_sharing(time, work))


def test_an_overloaded_queue_grows_by_its_load_minus_its_share(of_paper):
    """Catches: shares that do not follow the weights while both aggregates are busy."""
    load, fluid, adjust = (of_paper(it) for it in ("_load", "_fluid", "_adjust"))
    # A file of 1,000 s keeps class 2 busy; class 1 gets 5 s of work each 10 s.
    time = np.concatenate([[0.0], np.arange(0.5, 1_000, 10)])
    work, owner = np.array([1_000.0] + [5.0] * 100), np.array([1] + [0] * 100)
    ran = fluid.share_by_weight(
        load.Files(time, work, owner), [adjust.Fixed(1), adjust.Fixed(3)], 1_000
    )
    late = np.searchsorted(ran.time, 990)
    assert ran.queues[late, 0] == pytest.approx((0.5 - 0.25) * 990, rel=0.02)


def test_the_literal_adjuster_obeys_its_thresholds(of_paper):
    """Catches: an increase below the low threshold; a decrease after a single negative round."""
    adjust = of_paper("_adjust")
    own = adjust.Parameters(samples=3, every=1.0, max_queue=10.0, initial=5.0)
    literal = adjust.Literal(SEED, 0, own)
    seen = adjust.Seen(0, 0, 0, 0, 0.5)

    def round_of(*queues):
        literal.taken = list(queues)
        literal.weight = literal.decide(seen, seen)
        return literal.weight

    assert round_of(0.1, 0.2, 0.3) == 5.0
    assert round_of(3, 4, 5) == pytest.approx(5 + 0.5 * (1 / 0.5 + 0.1) * 5)
    before = literal.weight
    assert round_of(5, 4, 3) == before and round_of(5, 4, 3) == pytest.approx(0.8 * before)
    assert round_of(5, 4, 3) == pytest.approx(0.8 * before)
    assert round_of(11, 11, 11) == pytest.approx(0.8 * before + 1)


def test_the_simplified_equation_and_proposition_1_behave_as_claimed(of_paper):
    """Catches: a matrix without the part that the shares of all aggregates add; an increase beyond
    rho_i + eps."""
    ode = of_paper("ode").measure(SEED, "E3, decays")
    assert ode["eigenvalues"] < 1e-9 and ode["away"] < 0.01 and not ode["grows"]
    assert ode["rate"] == pytest.approx(1, abs=0.05)
    within = of_paper("proposition").measure(SEED, "within")
    assert within["reached"] == 1 and within["excess"] <= 0
    assert of_paper("proposition").measure(SEED, "beyond")["reached"] < 1


def test_an_overloaded_queue_grows_as_the_theorem_says(of_paper):
    """Catches: a growth rate gamma computed for a server of rate 1, and not for the share phi_1."""
    theory, load = of_paper("theory"), of_paper("_load")
    gamma = theory.growth(load.E1[0], theory.OVERLOADED)
    assert gamma == pytest.approx(0.49, abs=0.01)
    growth = np.mean([theory.measure(seed, "growth")["growth"] for seed in range(1, 4)])
    assert growth == pytest.approx(gamma, rel=0.25)


def test_all_modes_of_a_seed_have_the_same_files(of_paper):
    """Catches: arrival times that depend on the state of the network."""
    network, load = of_paper("_network"), of_paper("_load")
    sizes = {}
    for mode in ("fixed", "separate"):
        own = network.network(load.E1, mode, network.Setup(seconds=60)).run(SEED)["transfers"]
        rows = own.where(group="files1")
        early = rows["began_seconds"] < 50
        sizes[mode] = np.sort(rows["bytes"][early])
    assert len(sizes["fixed"]) > 300 and np.array_equal(sizes["fixed"], sizes["separate"])


def test_aggregates_share_by_weight_while_both_are_busy(of_paper):
    """Catches: a weight that does not reach the aggregate connection's congestion control."""
    network, load = of_paper("_network"), of_paper("_load")
    setup = network.Setup(seconds=1_000)
    found = {
        mode: network.measured(network.network(load.E1, mode, setup).run(SEED), load.E1, mode)
        for mode in ("fixed", "by load")
    }
    assert 0.45 < found["fixed"]["phi_1"] < 0.55 and 0.6 < found["by load"]["phi_1"] < 0.75
    assert found["by load"]["p99_1"] < 0.5 * found["fixed"]["p99_1"]
    assert found["by load"]["all_above"] == 1 and found["fixed"]["above_1"] == 0


@pytest.mark.parametrize("mode", ["literal", "measured"])
def test_adjusters_change_weights_within_their_limits(of_paper, mode):
    """Catches: weights without limits; two gateways that decide at the same time."""
    network, load = of_paper("_network"), of_paper("_load")
    setup = network.Setup(seconds=1_000, samples=60)
    run = network.network(load.E1, mode, setup).run(SEED)
    weights = [run[f"aggregate long{it}"]["weight"] for it in (1, 2)]
    assert all(it.min() >= 1 and it.max() <= 10 and len(np.unique(it)) > 2 for it in weights)
    assert network.measured(run, load.E1, mode)["together"] < 0.2


def test_the_backlog_beside_a_giant_file_grows_by_load_minus_share(of_paper):
    """Catches: a backlog that leaves out the bytes queued in the gateway."""
    found = of_paper("overload").measure(SEED, "giant, fixed")
    assert abs(found["error"]) < 0.05 and found["backlog"] > 10e6


def test_short_files_gain_from_an_aggregate_on_a_long_path(of_paper):
    """Catches: an aggregate connection that makes a slow start for each file."""
    network, load = of_paper("_network"), of_paper("_load")
    setup = network.Setup(seconds=300, far="90 ms")
    found = {
        mode: np.median(network.sojourns(network.network(load.E1, mode, setup).run(SEED), 2))
        for mode in ("fixed", "separate")
    }
    assert found["fixed"] < 0.4 * found["separate"]


@pytest.mark.parametrize("kind", ["vegas", "connections"])
def test_trunks_with_measured_weights_lose_no_user_packet(of_paper, kind):
    """Catches: a router that drops user packets; a weight beyond its bounds; files that stall."""
    trunks = of_paper("trunks")
    run = trunks.network(kind, "measured", beside=False, seconds=150).run(SEED)
    row = trunks.times(run) | trunks.path(run)
    assert row["lost"] == row["tunnel"] == 0
    assert all(1 <= row[f"weight_{it}"] <= 10 for it in (1, 2))
    assert row["files_1"] > 1_200 and row["p99_1"] < 10


def test_one_tcp_gets_more_than_its_share_beside_idle_trunks(of_paper):
    """Catches: a competing TCP that bypasses the bottleneck; a share computed of another rate than
    the link's."""
    trunks = of_paper("trunks")
    row = trunks.path(trunks.network("connections", "one", beside=True, seconds=60).run(SEED))
    assert 0.1 < row["cross"] < 0.9
    assert row["cross_over_fair"] == pytest.approx(3 * row["cross"])


def test_vegas_mistakes_a_longer_path_for_a_queue(of_paper):
    """Catches: a delay that changes in one direction only, or at another link; a Vegas that
    measures its base round-trip time again."""
    network, load = of_paper("_network"), of_paper("_load")
    setup = network.Setup(seconds=120, sample=1.0, paths=((60, 1, "30 ms"),))
    run = network.network(load.E1, "fixed", setup).run(SEED)
    series = run["aggregate long1"]
    sent, busy = (series[it].astype(float) for it in ("busy_sent_bytes", "busy_seconds"))
    rate = (sent[-1] - sent[69]) / (busy[-1] - busy[69])
    # 10 / 40 ms of 1,000 B; the link carries 1.2 MB/s.
    assert rate == pytest.approx(250e3, rel=0.2)


def test_the_simulator_agrees_with_live_aggregates(of_paper):
    """Catches: files of other sizes than an eighth of those in E1; weights that do not follow the
    load."""
    files, live = (of_paper(it, "live.itcp") for it in ("_files", "live"))
    for number, load in ((1, 0.52), (2, 0.24)):
        own = np.array(list(files.files(number, 600, str(SEED))))
        assert np.array_equal(own, list(files.files(number, 600, str(SEED))))
        assert own[:, 1].sum() * 8 / 600 / 20e6 == pytest.approx(load, rel=0.25)
    fixed, adjusted = (live.simulated(it, SEED, 60) for it in ("fixed", "proportional"))
    assert fixed["weight_1"] == fixed["weight_2"] == 10 and fixed["all_above"] == 0
    assert adjusted["all_above"] > 0.5 and adjusted["p99_1"] < fixed["p99_1"]
