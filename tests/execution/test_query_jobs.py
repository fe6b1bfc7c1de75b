"""Query jobs: pictures that are made for one defence, which is asked about them meanwhile (B2, A7, X1, X4)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from structlog.testing import capture_logs

from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.organizer_attacks import AttackedPicture, OrganizerAttack
from orchestrator.domain.outcomes import FAULTED, NOT_ATTACKED, NOT_PLAYED
from orchestrator.domain.plan import Cell
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.domain.queries import QueryFailure
from orchestrator.domain.submissions import Roster
from orchestrator.errors import StoreFault
from orchestrator.execution import query_progress, query_steps
from orchestrator.execution.planner import make_plan
from orchestrator.execution.query_sample import CHECKED_DECISIONS, AskedQuestion, QuestionSample
from orchestrator.execution.reproduction import FindingReproducer
from orchestrator.execution.reusable_jobs import ReusableRound, reusable_jobs
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.stores.base import get_array
from orchestrator.logs import QUERY_PROGRESS
from orchestrator.protocol import frames

from .cheats import EVERYTHING, LENIENT, Defence, labels
from .conftest import EMPTY, Brighten, first_value

NO_REPLAYS = SamplingDesign(power=0)


class Bold(Defence):
    """A defence that always says the last class."""

    def reply(self, header, value):
        """Answers."""
        return labels(header, [3])


class Dims(Defence):
    """A defence that ends at pictures whose first value is 5."""

    def reply(self, header, value):
        """Answers, or ends."""
        return EMPTY if value == 5 else super().reply(header, value)


class Remembers(Defence):
    """A defence that tells the truth only about pictures that it has not seen the like of: a detector of queries."""

    def __call__(self, header, payload):
        """Answers by the second value, which every query about a picture shares."""
        wrong = payload[1] in self.seen
        self.seen.add(payload[1])
        return labels(header, [(payload[0] + 2 * wrong) % 4])


class AnswersAsThen(Defence):
    """A defence that answers every question as `Remembers` answers what it has seen before: by the picture alone."""

    def __call__(self, header, payload):
        """Answers."""
        seen = payload[0] != payload[1]
        return labels(header, [(payload[0] + 2 * seen) % 4])


@pytest.fixture
def queried(stage):
    """Returns a function that plays one attack of the organizers against defences."""

    def play(defences, *, first=9, **changes):
        attack = Brighten(first)
        changes = {"limits": LENIENT, "replay": NO_REPLAYS, **changes}
        return stage(attacks={}, organizer_attacks=[attack], defences=defences, **changes)

    return play


def made(played, defence):
    """Returns what was made for a defence, and what it was asked."""
    cell = Cell(defence, "brighten")
    examples, asked = played.record.cell_examples(cell), played.record.query_record(cell)
    assert examples is not None
    assert asked is not None
    return examples, asked


def test_each_defence_meets_pictures_of_its_own(queried):
    """One step on the way to another class for one that looks, none for one that is wrong from the start."""
    played = queried({"first": first_value, "bold": Bold})
    played.run()
    stages = [job.stage for job in played.plan().jobs]
    assert stages == [JobStage.QUERY] * 2 + [JobStage.CLASSIFY] * 4
    truth = played.setting.samples.labels
    examples, asked = made(played, "first")
    assert asked.queries[:9].tolist() == [2] * 9
    assert (examples.pixels[:9, 0, 0, 0] == played.setting.samples.pixels[:9, 0, 0, 0] + 1).all()
    _, asked = made(played, "bold")
    assert asked.queries[:9].tolist() == [1 if label != 3 else 6 for label in truth[:9]]
    assert asked.given_up.tolist() == [True] + [False] * 11


def test_it_says_how_far_it_is(queried, monkeypatch):
    """Queries and pictures are counted over all steps, and the time is estimated once a picture is finished."""
    monkeypatch.setattr(query_progress, "SECONDS_BETWEEN", 0)
    monkeypatch.setattr(query_steps, "PICTURES_PER_STEP", 4)
    with capture_logs() as logs:
        queried({"first": first_value}).run()
    said = [each for each in logs if each["event"] == QUERY_PROGRESS]
    assert [each["queries"] for each in said] == list(range(1, 19))
    assert (said[0]["submission"], said[0]["attack"], said[0]["pictures"]) == ("first", "brighten", "0 of 9")
    assert "seconds_left" not in said[0]
    assert said[-1]["pictures"] == "8 of 9"
    assert 0 <= said[-1]["seconds_left"] <= said[-1]["most_seconds_left"]


def test_pictures_beyond_its_number_are_no_part_of_the_cell(queried):
    """They are clean in the record, never asked, and in no count."""
    played = queried({"first": first_value})
    played.run()
    answers = played.record.answers("first", 12)[Cell("first", "brighten")]
    assert (answers[9:] == NOT_ATTACKED).all()
    assert (answers[:9] != played.setting.samples.labels[:9]).all()
    examples, asked = made(played, "first")
    assert np.array_equal(examples.pixels[9:], played.setting.samples.pixels[9:])
    assert asked.attacked.tolist() == [True] * 9 + [False] * 3
    assert played.backend.questions == 9 * 2 + 9 + 12


def test_every_defence_meets_the_same_chance(queried):
    """The last value is drawn: by the attack and the picture, and by no defence or order."""
    played = queried({"first": first_value, "bold": Bold})
    played.run(devices=(None, None))
    one, other = (made(played, name)[0].pixels[:9, 0, 1, 1] for name in ("first", "bold"))
    assert np.array_equal(one, other)
    assert len(set(one.tolist())) > 1


def test_the_judge_has_seen_no_query(queried):
    """A detector of queries answers its own queries wrongly; in judgement it meets the picture for the first time."""
    played = queried({"remembers": Remembers})
    played.run()
    _, asked = made(played, "remembers")
    assert asked.queries[:9].tolist() == [2] * 9  # the second query looks like the first
    answers = played.record.answers("remembers", 12)[Cell("remembers", "brighten")][:9]
    assert (answers == (played.setting.samples.labels[:9] + 1) % 4).all()


def test_a_killed_round_asks_nothing_twice(queried, monkeypatch):
    """What is on record of a query job is not asked again; the pictures are those of a round that was not killed."""
    monkeypatch.setattr(query_steps, "PICTURES_PER_STEP", 2)
    whole, killed = queried({"first": first_value}), queried({"first": first_value})
    whole.run()

    def kill(event):
        if event.kind == "step_finished" and event.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.run(watch=kill)
    killed.go_on()
    steps = [step for step in killed.events("step_finished") if step.stage is JobStage.QUERY]
    assert sorted(step.step for step in steps) == [0, 1, 2, 3, 4]
    assert np.array_equal(made(killed, "first")[0].pixels, made(whole, "first")[0].pixels)
    transcripts = [
        {step.step: step.transcript for step in each.events("step_finished") if step.stage is JobStage.QUERY}
        for each in (whole, killed)
    ]
    assert transcripts[0] == transcripts[1]


def test_a_lost_sandbox_changes_nothing(queried):
    """A fault of ours in the middle of a step: it is played again from its beginning, and comes out the same."""
    whole, lossy = queried({"first": first_value}), queried({"first": first_value})
    whole.run()
    lossy.backend.lose = lambda what, count: what == "question" and count == 7
    lossy.run()
    assert [event.code for event in lossy.events("attempt_failed")] == ["sandbox-lost"]
    assert np.array_equal(made(lossy, "first")[0].pixels, made(whole, "first")[0].pixels)
    assert made(lossy, "first")[1].queries.tolist() == made(whole, "first")[1].queries.tolist()


def test_a_fault_on_a_query_loses_the_picture_and_no_other(queried):
    """A defence that ends at one query has lost that picture, unasked; its neighbours are what they are without it."""
    played = queried({"dims": Dims, "first": first_value})
    played.run()
    _, asked = made(played, "dims")
    lost = np.flatnonzero(asked.failures == QueryFailure.FAULTED).tolist()
    assert lost == [4, 5]  # 5 itself, and 4 on its way to it
    dims, first = (played.record.answers(name, 12)[Cell(name, "brighten")] for name in ("dims", "first"))
    assert (dims[lost] == FAULTED).all()
    others = [picture for picture in range(9) if picture not in lost]
    assert np.array_equal(dims[others], first[others])
    [step] = [step for step in played.events("step_finished") if step.stage is JobStage.QUERY and step.faults]
    assert step.submission == "dims"


def test_a_defence_that_gives_up_has_lost_the_cell(queried):
    """Where no sandbox gets ready, nothing of the cell is played, and the round ends."""
    played = queried({"never": lambda header, payload: EMPTY}, limits=replace(LENIENT, restarts=1, fault_seconds=0))
    played.run()
    answers = played.record.answers("never", 12)[Cell("never", "brighten")]
    assert set(answers[:9].tolist()) <= {FAULTED, NOT_PLAYED}
    assert NOT_PLAYED in answers
    assert played.record.round.closed
    asked = played.record.query_record(Cell("never", "brighten"))
    assert (asked.queries.sum(), asked.unplayed) == (len(answers[:9]), (answers[:9] == NOT_PLAYED).sum())


def test_what_is_played_stays_when_a_defence_joins(queried):
    """Of a larger roster only the new defence's jobs are left (X4)."""
    small, large = queried({"first": first_value}), queried({"first": first_value, "bold": Bold})
    small.run()
    past = ReusableRound.from_view("past", "", small.record, small.setting.blobs)
    known = reusable_jobs(large.record, [past])
    plan = make_plan(large.setting, large.cells(), known)
    done = {job.id for job in known}
    left = [(job.stage, job.submission) for job in plan.jobs if job.id not in done]
    assert sorted(left) == [(JobStage.CLASSIFY, "bold")] * 2 + [(JobStage.QUERY, "bold")]


def test_another_attack_of_the_same_name_is_played_again(queried):
    """The digest of an organizers' attack is its code and settings."""
    then, now = queried({"first": first_value}), queried({"first": first_value})
    ids = [job.id for job in then.plan().jobs]
    other = (replace(s, digest="sha256:other") if s.id == "brighten" else s for s in now.setting.roster)
    now.setting = replace(now.setting, roster=Roster(tuple(other)))
    again = [job.id for job in now.plan().jobs]
    assert [one == other for one, other in zip(ids, again, strict=True)] == [False, True, False]


def test_damaged_queries_take_what_was_built_on_them(queried):
    """The pictures of a query job that cannot be read are made again, and judged again."""
    played = queried({"first": first_value, "bold": Bold})
    played.run()
    [step, _] = [step for step in played.events("step_finished") if step.stage is JobStage.QUERY]
    broken = step.blobs["candidates"]
    real = played.setting.blobs.get

    def get(digest):
        if digest == broken:
            raise StoreFault("gone")
        return real(digest)

    played.setting.blobs.get = get
    past = ReusableRound.from_view("past", "", played.record, played.setting.blobs)
    lost = played.record.round.jobs.keys() - past.usable_jobs.keys()
    stages = sorted((played.record.round.jobs[job].stage, played.record.round.jobs[job].submission) for job in lost)
    name = step.submission
    assert stages == [(JobStage.CLASSIFY, name), (JobStage.QUERY, name)]


@pytest.mark.slow
def test_a_defence_that_recognises_queries_is_accused(queried):
    """Some questions are asked again, each in a fresh sandbox: a detector's answers differ, and nobody else's."""
    played = queried({"remembers": Remembers, "first": first_value}, replay=EVERYTHING)
    played.run()
    [finding] = [finding for finding in played.record.round.findings if finding.kind is FindingKind.QUERIES]
    assert (finding.submission, finding.rules) == ("remembers", ("A9", "A10"))
    assert finding.compared == CHECKED_DECISIONS
    assert {shown.attack for shown in finding.disagreements} == {"brighten"}
    assert all(shown.answer_in_play != shown.answer_in_replay for shown in finding.disagreements)
    assert not [finding for finding in played.record.round.findings if finding.submission == "first"]
    check = played.record.query_check(finding.job)
    assert check.step == finding.steps[0]
    assert len(check.sandboxes) == CHECKED_DECISIONS


def test_without_replays_nothing_is_asked_again(queried):
    """`replay.power: 0` turns this check off as well."""
    played = queried({"remembers": Remembers})
    played.run()
    assert not played.record.round.findings
    assert all(played.record.query_check(job.id) is None for job in played.plan().jobs)


class Ascends(OrganizerAttack):
    """Adds one where the gradient says so: one gradient of each picture."""

    name, queries_per_picture, digest = "ascends", 1, "sha256:ascends"

    def pictures(self, count):
        """Returns all."""
        return count

    def play(self, samples, pictures, generators, defence, budget):
        """Asks for all gradients at once."""
        assert budget.epsilon == 2
        numbers = np.asarray(pictures, np.int32)
        replies = defence.ask_gradients(samples.pixels[numbers], samples.labels[numbers], numbers)
        for picture, gradient in zip(pictures, replies.gradients, strict=True):
            yield AttackedPicture(picture, samples.pixels[picture] + (gradient > 0).astype(np.uint8), 1)


class Slopes(Defence):
    """A defence whose gradient is one everywhere; it ends where it is asked for that of a picture of value 5."""

    gives: ClassVar[list[str]] = ["label", "gradient"]

    def __call__(self, header, payload):
        """Answers, or ends."""
        if header["type"] != "gradient":
            return super().__call__(header, payload)
        if 5 in payload:
            return EMPTY
        answer = {"type": "gradients", "id": header["id"], "dtype": "f32", "shape": header["shape"]}
        return frames.encode_frame(answer, np.ones(header["shape"], "<f4").tobytes())


def test_attacks_of_the_format_may_follow_gradients(stage):
    """Each counts as one query whatever it costs participants; a fault on one loses that picture and no other (A7)."""
    access = Access(AccessKind.GRADIENT, queries=30, gradient_price=10)
    played = stage(
        attacks={},
        organizer_attacks=[Ascends()],
        defences={"slopes": Slopes},
        limits=LENIENT,
        replay=NO_REPLAYS,
        access=access,
    )
    played.run()
    cell = Cell("slopes", "ascends")
    pixels, asked = played.record.cell_examples(cell).pixels, played.record.query_record(cell)
    clean = played.setting.samples.pixels
    moved = (pixels.astype(int) - clean).reshape(12, -1)
    assert (moved == [[0] * 4 if picture == 5 else [1] * 4 for picture in range(12)]).all()
    assert asked.queries.tolist() == [1] * 12
    assert [*np.flatnonzero(asked.failures == QueryFailure.FAULTED)] == [5]
    (step,) = [step for step in played.events("step_finished") if step.stage is JobStage.QUERY]
    assert len(get_array(played.setting.blobs, step.blobs["replies"])) == 12


def test_a_defence_without_gradients_is_not_asked_where_all_have_to_give_them(stage):
    """Its `ready` is a fault of its own, in every sandbox; it loses every picture (A12)."""
    defences = {"slopes": Slopes, "first": first_value}
    played = stage(
        attacks={},
        organizer_attacks=[Ascends()],
        defences=defences,
        limits=LENIENT,
        replay=NO_REPLAYS,
        needs_gradients=True,
    )
    played.run()
    assert (played.record.answers("first", 12)[Cell("first")] == NOT_PLAYED).all()
    assert (played.record.answers("slopes", 12)[Cell("slopes")] >= 0).all()
    codes = {
        fault.code for step in played.events("step_finished") if step.submission == "first" for fault in step.faults
    }
    assert codes == {"no-gradients", "gave-up"}


@pytest.mark.slow
def test_a_killed_check_goes_on_and_finds_the_same(queried, monkeypatch):
    """The round is killed before the last step of the query job: what it finds is what it would have found."""
    monkeypatch.setattr(query_steps, "PICTURES_PER_STEP", 4)
    whole, killed = (queried({"remembers": Remembers}, replay=EVERYTHING) for _ in range(2))
    whole.run()

    def kill(event):
        if event.kind == "step_finished" and event.stage is JobStage.QUERY and event.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.run(watch=kill)
    killed.go_on()
    found, expected = (
        [finding for finding in each.record.round.findings if finding.kind is FindingKind.QUERIES]
        for each in (killed, whole)
    )
    assert found == expected
    assert found


def test_every_question_is_kept_with_the_same_probability():
    """Of ten questions two are kept: each in about a fifth of a thousand samples; what had a fault is in none."""
    counts = np.zeros(11, int)
    for seed in range(1000):
        sample = QuestionSample(np.random.default_rng(seed), 2)
        for number in range(11):
            answers = np.array([FAULTED if number == 10 else 1], np.int32)
            sample.offer(AskedQuestion(np.zeros((1, 1, 2, 2), np.uint8), np.array([number], np.int32), answers))
        rows = sample.arrays()["sampled_rows"]
        assert rows[:, 0].tolist() == [0, 1]
        counts[rows[:, 1]] += 1
    assert counts[10] == 0
    assert (abs(counts[:10] - 200) < 65).all()  # five standard deviations


@pytest.mark.slow
def test_a_finding_about_queries_shows_again(queried):
    """`sparring replay`: the same questions in fresh sandboxes differ from the queries; an honest defence agrees."""
    played = queried({"remembers": Remembers}, replay=EVERYTHING)
    played.run()
    [finding] = [finding for finding in played.record.round.findings if finding.kind is FindingKind.QUERIES]
    again = FindingReproducer(played.setting, played.record, finding, None).reproduce()
    assert again.reproduced
    assert again.compared == CHECKED_DECISIONS
    assert all(len(session.rows) == 1 for session in again.sessions)
    played.backend.players["remembers"] = AnswersAsThen
    assert FindingReproducer(played.setting, played.record, finding, None).reproduce().reproduced is False
