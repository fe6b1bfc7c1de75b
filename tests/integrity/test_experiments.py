"""The promise itself, measured on a small scale; `bench/replay.py` measures it on a large one."""

import pytest
import scipy
from experiments import HONEST, SMALL

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import SamplingDesign

pytestmark = pytest.mark.slow
RUNS = 60


@pytest.mark.parametrize("planned", [0.5, 0.9])
def test_a_cheat_is_caught_as_often_as_planned(planned) -> None:
    """Exactly 1 % of its answers, never by chance: the count of catches lies in the planned power's 99 % interval."""
    verdicts = [SMALL.run(planned, seed) for seed in range(RUNS)]
    caught = [verdict for verdict in verdicts if verdict.accusation is not None]
    low, high = scipy.stats.binom.interval(0.99, RUNS, planned)
    assert low <= len(caught) <= high
    assert {verdict.accusation.kind for verdict in caught} == {FindingKind.STATE}
    assert {verdict.coverage.drawn for verdict in verdicts} == {
        detection_power.sample_size(1800, SamplingDesign(power=planned))
    }


def test_a_catch_is_a_drawn_answer() -> None:
    """Who is not caught had none of its answers in the sample; nobody who had one got away."""
    for seed in range(20):
        verdict = SMALL.run(0.5, seed)
        assert (verdict.accusation is not None) == bool(verdict.mismatches)


def test_no_honest_run_is_accused() -> None:
    """Four runs of each kind of honest classifier, with other seeds than elsewhere."""
    runs = [(fair.name, seed, fair.run(seed)) for fair in HONEST for seed in range(100, 104)]
    assert len(runs) >= RUNS
    assert [run for run in runs if run[2].accusation is not None] == []
    assert min(verdict.coverage.achieved for _, _, verdict in runs) > 0.95
