"""A round that was killed in the middle of its replays, and is played on with other players than before (X4)."""

from collections import Counter
from dataclasses import replace

import pytest

from orchestrator.domain import events
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.submissions import Roster, Side
from orchestrator.execution.reusable_jobs import ReusableRound
from orchestrator.execution.round_runner import RoundRunner
from orchestrator.executors.local import LocalExecutor
from orchestrator.integrity import diagnosis, findings
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.memory import MemoryBlobs, MemoryLedger

from .cheats import EVERYTHING, LENIENT, Counts, Defence, apart
from .conftest import shift

PLAYERS = {
    "attacks": {"shift": shift, "apart": apart},
    "defences": {"cheat": Counts, "early": Defence, "late": Defence},
}
TOGETHER = ("shift", "cheat", "early")
CHANGES = {
    "a defence comes": ("shift", "cheat", "early", "late"),
    "a defence leaves": ("shift", "cheat"),
    "an attack comes": ("shift", "apart", "cheat", "early"),
    "an attack leaves": ("cheat", "early"),
    "nothing": TOGETHER,
}


class Killed(BaseException):
    """The orchestrator's end."""


class Playing:
    """One round in memory, played by whoever is in it at a time."""

    def __init__(self, setting) -> None:
        self.setting, self.ledger = replace(setting, blobs=MemoryBlobs()), MemoryLedger()

    @property
    def record(self) -> RoundView:
        """The fold of the ledger."""
        return RoundView(self.setting.blobs, self.told)

    @property
    def told(self) -> list[events.Event]:
        """What is in the ledger."""
        return [entry.event for entry in self.ledger.read()]

    def play(self, who, watch=lambda _event: None, earlier=()) -> RoundView:
        """Plays what is left, as an orchestrator that knows the ledger and nothing else; `who` is in the round now."""
        roster = Roster(tuple(each for each in self.setting.roster if each.id in who))
        self.setting.cancelled.clear()
        setting, record = replace(self.setting, roster=roster), self.record
        dispatcher = RoundRunner(setting, self.ledger, record, lambda: "2026-03-01T08:00:00.000+00:00", watch)
        if record.round.opening is None:
            dispatcher.open_round({"contest": "test", "isolation": setting.isolation.value})
        dispatcher.invalidate_damaged()
        dispatcher.admit_new()
        attacks = [None, *(attack.id for attack in roster.by_side(Side.ATTACK))]
        cells = tuple(Cell(defence.id, attack) for defence in roster.by_side(Side.DEFENCE) for attack in attacks)
        dispatcher.run(LocalExecutor(("GPU-0",)), cells, earlier)
        return record


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Bursts and waits take no time."""
    monkeypatch.setattr(diagnosis, "BURST_PAUSES", {diagnosis.BURST_LENGTH: 0.002, 2 * diagnosis.BURST_LENGTH: 0.002})
    monkeypatch.setattr(diagnosis, "MAX_WAIT_SECONDS", 0.01)


@pytest.fixture
def playing(stage):
    """Returns a function that gives a round of its own; all of them have the same secret and the same players."""
    setting = stage(**PLAYERS, replay=EVERYTHING, limits=LENIENT, epsilon=12).setting
    return lambda **changes: Playing(replace(setting, **changes))


def killed_after(kind, count):
    """Returns a watch that kills the orchestrator at the event of this kind that so many of the cheat's came before."""
    left = iter(range(count))

    def watch(event) -> None:
        mine = event.kind == kind and event.submission == "cheat"
        if mine and getattr(event, "stage", Stage.REPLAY) is Stage.REPLAY and next(left, None) is None:
            raise Killed

    return watch


def replayed(record):
    """Returns what the cheat was asked in its replays and what it said, what they covered and what was found."""
    jobs = [job for job in record.round.planned_jobs if job.stage is Stage.REPLAY and job.submission == "cheat"]
    steps = {
        (job.id, number): (step.blobs["rows"], step.session, len(step.sandboxes))
        for job in jobs
        for number, step in record.round.steps[job.id].items()
    }
    return steps, [record.round.replay_coverage[job.id] for job in jobs], record.round.findings


def verified(played, record) -> int:
    """Judges again every replay of a defence that was judged where its steps are, and returns how many."""
    jobs = [job for job in record.round.planned_jobs if job.id in record.round.replay_coverage]
    for planned in jobs:
        cells = tuple(Cell(cell.defence, cell.attack) for cell in planned.cells)
        job = Job(JobId(planned.id), planned.stage, planned.submission, cells)
        _, verdict = findings.verdict_on_record(record, job, played.setting.check_parameters)
        assert findings.verdict_event(job, verdict) == record.round.replay_coverage[job.id]
    return len(jobs)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("kind", "count"),
    [("step_finished", 0), pytest.param("step_finished", 3, marks=pytest.mark.slow), ("job_finished", 0)],
)
def test_a_half_replayed_round_is_played_on_by_others(playing, change, kind, count) -> None:
    """It ends as if all had played together from the start, with the answers of who left; a new plan replays anew."""
    whole = playing().play(tuple(dict.fromkeys((*CHANGES[change], *TOGETHER))))
    assert [finding.kind for finding in whole.round.findings] == [FindingKind.STATE]
    half = playing()
    with pytest.raises(Killed):
        half.play(TOGETHER, killed_after(kind, count))
    record = half.play(CHANGES[change])
    assert record.round.closed
    assert record.round.answers_digest == whole.round.answers_digest
    assert replayed(record) == replayed(whole)
    assert verified(half, record) == len(PLAYERS["defences"].keys() & set(CHANGES[change]))
    lost = [event for event in half.told if isinstance(event, events.StepsLost)]
    assert len(lost) == (change not in {"nothing", "an attack leaves"})
    told = half.told
    half.play(CHANGES[change])
    assert half.told == told


def test_an_attack_that_comes_starts_itself_and_each_defence_once(playing) -> None:
    """1 + D sandboxes, replays aside, and nothing is asked twice: every step is of the attack or of its cells."""
    played = playing()
    first = played.play(TOGETHER)
    orders, told = played.setting.backend.orders, len(played.told)
    started = len(orders)
    record = played.play(CHANGES["an attack comes"])
    replays = {job.id for job in record.round.planned_jobs if job.stage is Stage.REPLAY}
    fresh = Counter(order.image.name for order in orders[started:] if order.job not in replays)
    assert fresh == {"apart": 1, "cheat": 1, "early": 1}
    steps = [event for event in played.told[told:] if isinstance(event, events.StepFinished)]
    played_again = [step for step in steps if step.stage is not Stage.REPLAY]
    assert {cell.attack for step in played_again for cell in step.cells} == {"apart"}
    assert {step.submission for step in played_again if step.stage is Stage.PERTURB} == {"apart"}
    for defence in ("cheat", "early"):
        before, after = (view.answers(defence, 12) for view in (first, record))
        assert before.keys() < after.keys()
        assert all((after[cell] == answers).all() for cell, answers in before.items())


def test_what_was_judged_stays(playing) -> None:
    """A replay that was judged before the round grew is not played again: it examined what it examined."""
    played = playing()
    first = replayed(played.play(TOGETHER))
    record = played.play(CHANGES["a defence comes"])
    assert replayed(record) == first
    assert not [event for event in played.told if isinstance(event, events.StepsLost)]


@pytest.mark.parametrize("judged", [True, False])
def test_a_replay_of_an_earlier_round_is_reused_once_judged(playing, judged) -> None:
    """What an interrupted round finished and did not judge follows from answers that the next round never had."""
    initial, final = playing(), playing(secret=b"t" * 32, round="final")
    if judged:
        initial.play(TOGETHER)
    else:
        with pytest.raises(Killed):
            initial.play(TOGETHER, killed_after("job_finished", 0))
    final.setting = replace(final.setting, blobs=initial.setting.blobs)
    past = ReusableRound.from_view("initial", initial.ledger.head, initial.record, initial.setting.blobs)
    replays = {job.id for job in initial.record.round.planned_jobs if job.stage is Stage.REPLAY}
    assert bool(replays & past.usable_jobs.keys()) is judged
    record = final.play(TOGETHER, earlier=(past,))
    assert record.round.closed
    assert [finding.kind for finding in record.round.findings] == [FindingKind.STATE]
    again = {
        event.job for event in final.told if isinstance(event, events.StepFinished) and event.stage is Stage.REPLAY
    }
    assert again == replays
    (reused,) = [event for event in final.told if isinstance(event, events.JobsReused)]
    assert replays.isdisjoint(reused.jobs) is not judged
