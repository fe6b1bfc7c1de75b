"""Findings played again: the same questions in fresh sandboxes, and whether they show it again."""

import dataclasses

import pytest

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, NOT_ASKED
from orchestrator.domain.submissions import Roster
from orchestrator.errors import Cancelled, SandboxLost, StoreFault
from orchestrator.execution.reproduction import (
    FindingReproducer,
    Inconsistency,
    QuestionRow,
    ReproducedSession,
    SeenDecision,
    find_inconsistencies,
)
from orchestrator.integrity import diagnosis
from orchestrator.integrity.detection_power import SamplingDesign

from .cheats import EVERYTHING, LENIENT, Counts, Defence, OwnChance, Refuses, SandboxChance, Seeded, labels, sessions


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Bursts and waits take no time."""
    monkeypatch.setattr(diagnosis, "BURST_PAUSES", {diagnosis.BURST_LENGTH: 0.002, 2 * diagnosis.BURST_LENGTH: 0.002})
    monkeypatch.setattr(diagnosis, "MAX_WAIT_SECONDS", 0.01)


class Reformed(Counts):
    """Counts in its first sandboxes, and no longer once it was found."""

    found = False

    def reply(self, header, value):
        """Answers by the count, or honestly."""
        return labels(header, [value % 4]) if Reformed.found else super().reply(header, value)


class Moody(Defence):
    """Turns its answers around in every other sandbox that is started."""

    def reply(self, header, value):
        """Answers by its mood."""
        return labels(header, [(value + self.number % 2) % 4])


def reproducer(played, *, recorded_seeds=False, **changes):
    """Plays a round with one finding, and returns that finding and its reproducer."""
    record = played.run()
    (finding,) = record.round.findings
    setting = dataclasses.replace(played.setting, secret=b"t" * 32, **changes)
    return finding, FindingReproducer(setting, record, finding, None, recorded_seeds=recorded_seeds)


def test_a_sequence_shows_it_again(stage) -> None:
    """Every recorded session is asked again, each pair told one fresh seed, and it answers as then."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    finding, again = reproducer(played)
    before, head = len(played.backend.seeds), played.ledger.head
    result = again.reproduce()
    assert result.reproduced
    assert [session.step for session in result.sessions] == list(finding.steps)
    recorded = {step.step: step for step in sessions(played, "cheat")}
    told, then = played.backend.seeds[before:], [recorded[step].session.seed for step in finding.steps]
    assert told[::2] == told[1::2]
    assert len(set(told)) == len(finding.steps) // 2
    assert not set(told) & set(then)
    assert [session.seed for session in result.sessions] == told
    assert not result.recorded_seeds
    assert (result.pairs_reproduced, result.pairs) == (diagnosis.PROOF_PAIRS, diagnosis.PROOF_PAIRS)
    for session in result.sessions:
        rows = played.record.read_array(recorded[session.step], "rows")
        assert [line.answer_on_record for line in session.rows] == rows[:, 2].tolist()
        assert [line.answer_now for line in session.rows] == rows[:, 2].tolist()
        assert [line.picture for line in session.rows] == rows[:, 1].tolist()
    last = result.sessions[-1].rows[finding.length - 1]
    suspect = next(c for c in result.inconsistencies if (c.attack, c.picture) == (last.attack, last.picture))
    assert {given.answer for given in suspect.decisions} == {finding.answer_alone, last.answer_now}
    assert played.ledger.head == head
    assert played.backend.live == {None: 0}


@pytest.mark.parametrize("side", [{"defences": {"cheat": Counts}}, {"attacks": {"cheat": OwnChance}}])
def test_it_runs_from_a_copy_as_the_replays_did(stage, side) -> None:
    """Every sandbox has one copy of the image, as in the round; it is named, and gone afterwards."""
    played = stage(**side, replay=dataclasses.replace(EVERYTHING, attacks=1.0))
    _, again = reproducer(played)
    before = len(played.backend.orders)
    result = again.reproduce()
    started = {order.image.digest for order in played.backend.orders[before:]}
    assert started == {result.fresh_copy}
    assert "-copy-" in result.fresh_copy
    assert played.backend.copied == []


def test_the_organizers_own_run_from_their_image(stage) -> None:
    """A baseline has no copy in the round, and has none when its finding is played again."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    finding, _ = reproducer(played)
    roster = Roster(tuple(dataclasses.replace(each, baseline=True) for each in played.setting.roster))
    setting = dataclasses.replace(played.setting, secret=b"t" * 32, roster=roster)
    before = len(played.backend.orders)
    result = FindingReproducer(setting, played.record, finding, None).reproduce()
    assert {order.image.digest for order in played.backend.orders[before:]} == {finding.image}
    assert result.fresh_copy == ""


def test_the_recorded_seeds_are_told_where_that_is_asked_for(stage) -> None:
    """What depends on the seed gives the very answers of the finding only then."""
    _, again = reproducer(stage(defences={"cheat": Seeded}, replay=EVERYTHING), recorded_seeds=True)
    result = again.reproduce()
    assert result.recorded_seeds
    assert result.reproduced
    assert all(line.answer_on_record == line.answer_now for session in result.sessions for line in session.rows)


def test_a_cheat_that_behaves_now_is_not_reproduced(stage) -> None:
    """Where every question has one decision, the finding does not show again, and what was answered then is seen."""
    Reformed.found = False
    finding, again = reproducer(stage(defences={"cheat": Reformed}, replay=EVERYTHING))
    Reformed.found = True
    result = again.reproduce()
    assert not result.reproduced
    assert result.inconsistencies == ()
    assert any(line.answer_on_record != line.answer_now for session in result.sessions for line in session.rows)
    assert result.compared == sum(len(session.rows) for session in result.sessions)
    assert finding.kind is FindingKind.STATE


@pytest.mark.parametrize("cheat", [Seeded, Moody])
def test_sandboxes_that_disagree_do_so_again(stage, cheat) -> None:
    """Two sandboxes give the same questions different answers, as in the finding; the play's answers count too."""
    finding, again = reproducer(stage(defences={"cheat": cheat}, replay=EVERYTHING))
    assert finding.kind is FindingKind.ENVIRONMENT
    result = again.reproduce()
    assert result.reproduced
    assert {given.step for found in result.inconsistencies for given in found.decisions} >= {None, finding.steps[0]}


def test_who_refuses_does_so_again(stage, monkeypatch) -> None:
    """A session that was refused is asked in full again, each with as many new sandboxes as a job may have."""
    finding, again = reproducer(stage(defences={"refuses": Refuses}, replay=EVERYTHING, limits=LENIENT))
    result = again.reproduce()
    assert [session.purpose for session in result.sessions] == ["shuffled", "as-in-play", "as-in-play"]
    assert result.reproduced
    assert result.refused > 2 * LENIENT.restarts
    assert {fault.code for fault in result.faults} == {"died", "gave-up"}
    monkeypatch.setattr(Refuses, "answering_sandboxes", 100)
    assert not again.reproduce().reproduced
    assert finding.kind is FindingKind.REFUSED


@pytest.mark.parametrize("attack", [OwnChance, SandboxChance])
def test_an_attack_makes_other_pictures_again(stage, attack) -> None:
    """It is asked the same twice more, each time in one fresh sandbox with its public seed, batch after batch."""
    played = stage({"own": attack}, replay=SamplingDesign(power=0.0, attacks=1.0))
    finding, again = reproducer(played)
    before = len(played.backend.orders)
    result = again.reproduce()
    assert result.reproduced
    assert len(played.backend.orders) == before + 2
    assert [picture.picture for picture in result.changed_examples] == list(range(12))
    assert any(picture.values_changed_between for picture in result.changed_examples) is (attack is OwnChance)
    for turn in range(2):
        assert any(picture.values_changed[turn] for picture in result.changed_examples)
    assert 0 < max(picture.largest_change for picture in result.changed_examples) <= 2
    assert finding.submission == "own"


def test_an_attack_that_behaves_now_is_not_reproduced(stage, monkeypatch) -> None:
    """Where the pictures are those of the play the finding does not show again."""
    _, again = reproducer(stage({"own": SandboxChance}, replay=SamplingDesign(power=0.0, attacks=1.0)))
    monkeypatch.setattr(SandboxChance, "sandboxes_of_play", 100)
    result = again.reproduce()
    assert not result.reproduced
    assert not any(any(picture.values_changed) for picture in result.changed_examples)


class Faltering(SandboxChance):
    """Draws on and on as in its finding's play; once it falters, it ends itself at the second question of a sandbox."""

    falters = False

    def __call__(self, header, payload):
        """Adds 0 to 2 to each value, or ends."""
        reply = super().__call__(header, payload)
        return b"" if Faltering.falters and self.asked == 2 else reply


def test_an_attack_is_compared_as_far_as_one_sandbox_went(stage, monkeypatch) -> None:
    """A fresh sandbox after a fault begins its chance anew, as an honest attack does: what it makes is not compared."""
    played = stage({"own": Faltering}, replay=SamplingDesign(power=0.0, attacks=1.0))
    _, again = reproducer(played)
    monkeypatch.setattr(Faltering, "sandboxes_of_play", 100)
    monkeypatch.setattr(Faltering, "falters", True)
    before = len(played.backend.orders)
    result = again.reproduce()
    assert not result.reproduced
    assert [picture.picture for picture in result.changed_examples] == list(range(4))
    assert [fault.code for fault in result.faults] == ["died"] * 2
    assert len(played.backend.orders) == before + 2


def test_a_lost_sandbox_is_ours(stage) -> None:
    """What the engine loses shows nothing: the fault is raised, and nothing is left running."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    _, again = reproducer(played)
    asked = played.backend.questions
    played.backend.lose = lambda what, count: what == "question" and count == asked + 3
    with pytest.raises(SandboxLost):
        again.reproduce()
    assert played.backend.live == {None: 0}
    assert played.backend.copied == []


def test_it_can_be_cancelled(stage) -> None:
    """The operator ends it, and nothing is left running."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    _, again = reproducer(played)
    played.setting.cancelled.set()
    with pytest.raises(Cancelled):
        again.reproduce()
    assert played.backend.live == {None: 0}


def test_what_is_not_on_record_cannot_be_shown(stage) -> None:
    """A finding whose sessions the ledger lacks is a fault of ours, with their numbers."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    finding, again = reproducer(played)
    lost = dataclasses.replace(finding, steps=(*finding.steps, 99))
    with pytest.raises(StoreFault, match=r"steps \[99\]"):
        FindingReproducer(again._context, played.record, lost, None).reproduce()


def line(now, *, picture=1, played=0):
    """Returns one question about a clean picture."""
    return QuestionRow(None, picture, 0.0, played, played, now, None, refused=False)


def session(step, *lines):
    """Returns a session of these lines."""
    return ReproducedSession(step, "shrunk", 1, None, lines)


@pytest.mark.parametrize("nothing", [FAULTED, NOT_ASKED])
def test_no_answer_contradicts_nothing(nothing) -> None:
    """Only labels and abstentions are decisions; the play counts where it is asked to, and only if it decided."""
    once = (session(1, line(2), line(nothing), line(2)),)
    assert find_inconsistencies(once, include_play=False) == ()
    assert find_inconsistencies((session(1, line(2, played=nothing)),), include_play=True) == ()
    assert find_inconsistencies((session(1, line(nothing)),), include_play=True) == ()
    [found] = find_inconsistencies(once, include_play=True)
    assert found == Inconsistency(None, 1, (SeenDecision(0), SeenDecision(2, 1, 0)))


def test_a_decision_is_shown_where_it_was_given_first() -> None:
    """One question in two sessions with three decisions: each of them once, in their order; others are left alone."""
    two = (session(4, line(2), line(3, picture=9), line(ABSTAINED)), session(7, line(2), line(1), line(3, picture=9)))
    [found] = find_inconsistencies(two, include_play=False)
    assert found.decisions == (SeenDecision(2, 4, 0), SeenDecision(ABSTAINED, 4, 2), SeenDecision(1, 7, 1))
