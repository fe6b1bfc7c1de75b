"""An attack that queries a defence: what it learns, what it may ask, and that each side costs only itself (X6)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from orchestrator.bundles import array_checks
from orchestrator.domain.access import Access, AccessKind, Transcript
from orchestrator.domain.organizer_attacks import GradientReplies
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.domain.queries import QueryFailure
from orchestrator.domain.query_transcript import TRANSCRIPT_ARRAYS
from orchestrator.domain.tasks import Budget, Norm
from orchestrator.errors import NotGenuine
from orchestrator.execution.query_broker import Broker
from orchestrator.formats.tournament.format import Tournament
from orchestrator.formats.tournament.rules import TournamentRules
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.stores.base import get_array, put_array
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Refusal, Want
from orchestrator.protocol.session import AttackQuery
from orchestrator.scoring.round_scoring import RoundScoring

from .cheats import JUNK, LENIENT, Defence, labels
from .conftest import EMPTY, first_value

DECISIONS = Access(AccessKind.DECISION, queries=3, batch=4)


class Asks:
    """An attack that brightens each picture until the defence is wrong, a query a time, and delivers it.

    `most` is how often it asks about one picture. `told` is what the latest of them heard.
    """

    most = 9
    told: ClassVar[list[dict]] = []

    def __init__(self, seed: int) -> None:
        self.pixels = self.header = None
        self.place = self.asked = 0

    def __call__(self, header, payload):
        """Plays."""
        if header["type"] == "perturb":
            self.header, self.place, self.asked = header, 0, 0
            self.pixels = np.frombuffer(payload, np.uint8).reshape(header["shape"]).copy()
            return self.query()
        self.told.append(header)
        return self.heard(header)

    def query(self):
        """Asks about the picture at hand."""
        self.asked += 1
        header = {"type": "query", "id": self.header["id"], "want": "decision", "for": [self.place]}
        shape = {"dtype": "u8", "shape": [1, *self.header["shape"][1:]]}
        return frames.encode_frame(header | shape, self.pixels[self.place].tobytes())

    def heard(self, header):
        """Goes on to the next picture where this one is misread, or nothing more may be asked."""
        truth = self.header["labels"][self.place]
        if "refused" in header or header["labels"] != [truth] or self.asked == self.most:
            self.place, self.asked = self.place + 1, 0
        else:
            self.pixels[self.place, 0, 0, 0] += 1
        return self.query() if self.place < len(self.pixels) else self.deliver()

    def deliver(self):
        """Delivers everything."""
        index = list(range(len(self.pixels)))
        header = {"type": "candidates", "id": self.header["id"], "index": index, "dtype": "u8"}
        return frames.encode_frame(header | {"shape": self.header["shape"]}, self.pixels.tobytes())


class Overdraws(Asks):
    """Asks on where it was refused, and delivers what it has."""

    def heard(self, header):
        """Counts what is refused."""
        if "refused" in header and self.asked < 6:
            return self.query()
        return super().heard(header)


class Malformed(Asks):
    """Asks about a position that there is not."""

    def query(self):
        """Asks."""
        header = {"type": "query", "id": self.header["id"], "want": "decision", "for": [40], "dtype": "u8"}
        return frames.encode_frame(header | {"shape": [1, 1, 2, 2]}, bytes(4))


class AsksAfterwards(Asks):
    """Asks once more behind its delivery."""

    def deliver(self):
        """Delivers, and asks."""
        self.place = 0
        return super().deliver() + self.query()


class Hangs(Asks):
    """Reads the answer to its first query, and never says anything again."""

    def heard(self, header):
        """Hangs."""


class WantsScores(Asks):
    """Asks for what the contest does not give."""

    def query(self):
        """Asks for scores."""
        header = {"type": "query", "id": self.header["id"], "want": "scores", "for": [0], "dtype": "u8"}
        return frames.encode_frame(header | {"shape": [1, 1, 2, 2]}, bytes(4))


class EndsAtFive(Defence):
    """Ends at pictures whose first value is 5."""

    def reply(self, header, value):
        """Answers, or ends."""
        return EMPTY if value == 5 else super().reply(header, value)


class Detects(Defence):
    """Answers wrongly, and so misleads, once it has seen two pictures that share their second value."""

    def __call__(self, header, payload):
        """Answers by what it remembers."""
        repeated = payload[1] in self.seen
        self.seen.add(payload[1])
        return labels(header, [(payload[0] + 2 * repeated) % 4])


@pytest.fixture
def joined(stage):
    """Returns a function that plays attacks that may query against defences."""

    def play(attacks, defences=None, **changes):
        Asks.told = []
        changes = {"limits": LENIENT, "replay": SamplingDesign(power=0), "access": DECISIONS, **changes}
        played = stage(attacks=attacks, defences=defences or {"first": first_value}, **changes)
        played.run()
        return played

    return play


def made(played, attack, defence="first"):
    """Returns what was made for a defence, and what it was asked."""
    cell = Cell(defence, attack)
    return played.record.cell_examples(cell), played.record.query_record(cell)


def test_an_attack_asks_and_delivers_for_each_defence(joined) -> None:
    """One query finds that the clean picture is read, the next that the brighter one is not; then it delivers."""
    played = joined({"asks": Asks}, {"first": first_value, "still": lambda header, _: labels(header, [0])})
    examples, asked = made(played, "asks")
    assert asked.queries.tolist() == [2] * 12
    assert asked.fooled_at.tolist() == [2] * 12
    assert (examples.forfeits == Forfeit.NONE).all()
    assert (played.record.answers("first", 12)[Cell("first", "asks")] != played.setting.samples.labels).all()
    _, still = made(played, "asks", "still")
    truth = played.setting.samples.labels
    assert still.queries.tolist() == [1 if label else 3 for label in truth]
    assert still.fooled_at.tolist() == [1 if label else 0 for label in truth]
    steps = [step for step in played.events("step_finished") if step.stage is JobStage.QUERY]
    assert len(steps) == 6
    assert len({step.transcript for step in steps}) == 6
    assert {sandbox.submission for step in steps for sandbox in step.sandboxes} == {"", "asks"}


def test_what_is_over_the_budget_is_refused_and_costs_nothing(joined) -> None:
    """The fourth query about a picture is not put to the defence; no fault, and the attack delivers."""
    played = joined({"over": Overdraws}, {"still": lambda header, _: labels(header, [0])}, epsilon=12)
    examples, asked = made(played, "over", "still")
    assert asked.queries.max() == 3
    refused = [told for told in Asks.told if "refused" in told]
    assert refused
    assert all(told["refused"] == "budget" and told["left"] == [0] and "labels" not in told for told in refused)
    assert not played.record.round.fault_counts("over")
    assert (examples.forfeits == Forfeit.NONE).all()
    of_defence = asked.queries.sum() + 2 * 12  # and the judgement of clean and of attacked pictures
    of_attack = 3 + len(Asks.told)
    assert played.backend.questions == of_defence + of_attack


@pytest.mark.parametrize(
    ("attack", "code"),
    [(Malformed, "protocol"), (WantsScores, "protocol")],
)
def test_an_attack_that_misbehaves_loses_its_pictures_and_nobody_elses(joined, attack, code) -> None:
    """Its faults are its own, the defence has none, and the round ends."""
    played = joined({"bad": attack, "asks": Asks})
    examples, _ = made(played, "bad")
    assert (examples.forfeits == Forfeit.MISSING).all()
    faults = played.record.round.fault_counts("bad")
    assert {each for each, _ in faults} == {code}
    assert not played.record.round.fault_counts("first")
    assert made(played, "asks")[1].fooled_at.tolist() == [2] * 12
    assert played.record.round.closed


def test_an_attack_that_hangs_loses_its_pictures(joined) -> None:
    """It is over when its time is, and the defence has no fault."""
    played = joined({"hangs": Hangs}, limits=replace(LENIENT, perturb_seconds=0.3))
    assert (made(played, "hangs")[0].forfeits == Forfeit.MISSING).all()
    assert {code for code, _ in played.record.round.fault_counts("hangs")} == {"deadline"}
    assert not played.record.round.fault_counts("first")
    assert played.record.round.closed


def test_a_full_transcript_is_what_its_digest_says(joined) -> None:
    """Each step of a query job keeps its pictures and replies; with another picture or reply it is not genuine."""
    played = joined({"asks": Asks}, access=replace(DECISIONS, transcript=Transcript.FULL))
    steps = played.record.query_steps(Cell("first", "asks"))
    assert len(steps) == 3
    blobs = played.setting.blobs
    for step in steps:
        array_checks.check_transcript(played.record, step, "here")
        assert len(get_array(blobs, step.blobs["shown"])) == 8
        for name in ("shown", "shown_scores", "replies"):
            array = get_array(blobs, step.blobs[name])
            changed = put_array(blobs, np.where(np.isnan(array), array.dtype.type(0), array + array.dtype.type(1)))
            with pytest.raises(NotGenuine, match="not those of its transcript's digest"):
                array_checks.check_transcript(
                    played.record, step.model_copy(update={"blobs": step.blobs | {name: changed}}), "here"
                )
        kept = {name: blob for name, blob in step.blobs.items() if name != "shown"}
        with pytest.raises(NotGenuine, match="has no shown"):
            array_checks.check_transcript(played.record, step.model_copy(update={"blobs": kept}), "here")


def test_nothing_of_the_queries_is_kept_beside_the_digest_by_default(joined) -> None:
    """No step has the arrays of a full transcript."""
    played = joined({"asks": Asks})
    for step in played.record.query_steps(Cell("first", "asks")):
        assert not {*TRANSCRIPT_ARRAYS} & {*step.blobs}
        assert step.transcript


def test_a_query_behind_the_delivery_is_not_answered(joined) -> None:
    """What was delivered counts; the bytes behind it are a fault without a picture."""
    played = joined({"late": AsksAfterwards})
    examples, asked = made(played, "late")
    assert (examples.forfeits[4:] == Forfeit.NONE).all() or (examples.forfeits == Forfeit.NONE).all()
    assert asked.queries.max() == 2
    assert not played.record.round.fault_counts("first")


def test_a_fault_on_a_query_within_the_budget_loses_the_picture(joined) -> None:
    """The attack is told nothing, and the defence has lost what it would have lost had it been delivered."""
    played = joined({"asks": Asks}, {"ends": EndsAtFive, "first": first_value})
    _, asked = made(played, "asks", "ends")
    lost = np.flatnonzero(asked.failures == QueryFailure.FAULTED).tolist()
    assert lost == [4, 5]
    answers = played.record.answers("ends", 12)[Cell("ends", "asks")]
    assert (answers[lost] == FAULTED).all()
    assert not played.record.round.fault_counts("asks")
    assert [told for told in Asks.told if told.get("labels") == [None]]
    assert made(played, "asks")[1].failures.tolist() == [0] * 12


def test_an_abstention_counts_for_the_attack_as_it_does_on_the_leaderboards(joined) -> None:
    """A picture on which a defence abstains is a success of the query, or of the delivery if nothing was asked (A7)."""

    class Delivers(Asks):
        def query(self):
            return self.deliver()

    played = joined({"asks": Asks, "delivers": Delivers}, {"abstains": lambda header, _: labels(header, [None])})
    parts = RoundScoring(played.record, Tournament(TournamentRules())).query_parts()
    assert {part.attack: (part.success, part.median) for part in parts} == {"asks": (1, 1), "delivers": (1, 1)}


def test_a_detector_of_queries_gains_nothing_where_it_is_judged(joined) -> None:
    """It misleads the attack once it recognises its queries; the judge's sandbox has seen none of them."""
    played = joined({"asks": Asks}, {"detects": Detects})
    _, asked = made(played, "asks", "detects")
    assert (asked.queries == 2).all()
    answers = played.record.answers("detects", 12)[Cell("detects", "asks")]
    assert np.array_equal(answers, (played.setting.samples.labels + 1) % 4)


def test_output_behind_an_answer_is_the_attacks_alone(joined) -> None:
    """An attack that writes on without waiting for its reply floods; the defence answered and has no fault."""

    class Talks(Asks):
        def query(self):
            return super().query() + JUNK

    played = joined({"talks": Talks})
    assert played.record.round.fault_counts("talks")
    assert not played.record.round.fault_counts("first")


def test_a_lost_sandbox_is_played_again_with_a_whole_budget(joined, stage) -> None:
    """A fault of ours in the middle of the queries: they do not count, and the step comes out as without it."""
    Asks.told = []
    played = stage(
        attacks={"asks": Asks},
        defences={"first": first_value},
        limits=LENIENT,
        replay=SamplingDesign(power=0),
        access=DECISIONS,
    )
    played.backend.lose = lambda what, count: what == "question" and count == 9
    played.run()
    assert [event.code for event in played.events("attempt_failed")] == ["sandbox-lost"]
    _, asked = made(played, "asks")
    assert asked.queries.tolist() == [2] * 12
    assert asked.fooled_at.tolist() == [2] * 12


class Slope(Defence):
    """A defence that gives gradients: the picture's own values and the label, and ends at pictures of value 5."""

    gives: ClassVar[list[str]] = ["label", "gradient"]

    def __call__(self, header, payload):
        """Answers a question of either kind."""
        if header["type"] == "classify":
            return super().__call__(header, payload)
        pixels = np.frombuffer(payload, np.uint8).reshape(header["shape"])
        if (pixels[:, 0, 0, 0] == 5).any():
            return EMPTY
        values = pixels.astype("<f4") + np.array(header["labels"], "<f4").reshape(-1, 1, 1, 1) / 10
        answer = {"type": "gradients", "id": header["id"], "dtype": "f32", "shape": header["shape"]}
        return frames.encode_frame(answer, values.astype("<f4").tobytes())


class Climbs(Asks):
    """An attack that asks for one gradient of each of its pictures at once, and delivers them as they are."""

    heard_values: ClassVar[list] = []

    def query(self):
        """Asks for all gradients."""
        shape = self.header["shape"]
        header = {"type": "query", "id": self.header["id"], "want": "gradient", "for": [*range(shape[0])]}
        return frames.encode_frame(header | {"dtype": "u8", "shape": shape}, self.pixels.tobytes())

    def __call__(self, header, payload):
        """Keeps what it is told."""
        if header["type"] == "reply" and payload:
            self.heard_values.append(np.frombuffer(payload, "<f4").reshape(header["shape"]))
        return super().__call__(header, payload)

    def heard(self, header):
        """Delivers."""
        return self.deliver()


GRADIENTS = Access(AccessKind.GRADIENT, queries=3, batch=4, gradient_price=3)


def test_a_gradient_is_that_of_the_true_label_and_has_its_price(joined) -> None:
    """Three of three queries are spent; a picture that ends the defence is lost, and its neighbours have theirs."""
    Climbs.heard_values.clear()
    played = joined({"climbs": Climbs}, {"slope": Slope}, access=GRADIENTS)
    _, asked = made(played, "climbs", "slope")
    assert asked.queries.tolist() == [3] * 12
    assert asked.failures.tolist() == [number == 5 for number in range(12)]
    found = np.concatenate(Climbs.heard_values)
    truth = played.setting.samples
    expected = truth.pixels + truth.labels.reshape(-1, 1, 1, 1) / np.float32(10)
    others = np.arange(12) != 5
    np.testing.assert_allclose(found[others], expected[others], rtol=1e-6)
    assert np.isnan(found[5]).all()
    assert not asked.fooled_at[others].any()
    assert asked.fooled_at[5] == 3
    assert not played.record.round.fault_counts("climbs")


def test_a_defence_without_gradients_is_not_asked_and_has_no_fault(joined) -> None:
    """The attack is told NaN, which costs it its price."""
    Climbs.heard_values.clear()
    played = joined({"climbs": Climbs}, access=GRADIENTS)
    assert np.isnan(np.concatenate(Climbs.heard_values)).all()
    assert not played.record.round.fault_counts("first")
    assert made(played, "climbs")[1].queries.tolist() == [3] * 12
    assert played.backend.questions == 3 * 2 + 2 * 12


def test_gradients_of_a_defence_that_gives_up_are_not_played(joined) -> None:
    """Where every sandbox ends at once the budget of faults is spent: the rest is not played, and the round closes."""

    class Ends(Slope):
        def __call__(self, header, payload):
            return EMPTY if header["type"] == "gradient" else super().__call__(header, payload)

    limits = replace(LENIENT, restarts=1, fault_seconds=0)
    played = joined({"climbs": Climbs}, {"ends": Ends}, access=GRADIENTS, limits=limits)
    _, asked = made(played, "climbs", "ends")
    assert QueryFailure.NOT_PLAYED in asked.failures
    assert played.record.round.closed


class FixedQueries:
    """A defence behind a broker: answers and scores that were given before."""

    def __init__(self, answers, scores) -> None:
        self.answers, self.scores = np.array(answers, np.int32), np.array(scores, np.float32)

    def ask(self, pixels, pictures, price=1):
        """Answers."""
        del pictures, price
        return type("Replies", (), {"answers": self.answers[: len(pixels)], "scores": self.scores[: len(pixels)]})

    def ask_gradients(self, pixels, labels, pictures, price=1):
        """Gives gradients of 0."""
        del labels, pictures, price
        return GradientReplies(self.answers[: len(pixels)], np.zeros(pixels.shape, np.float32))


def broker(access, answers=(0,), scores=((0.126, 0.874),), **more):
    """Returns a broker before a defence that answers so, about one grey picture of class 0."""
    original = np.full((1, 1, 2, 2), 100, np.uint8)
    defence = FixedQueries(answers, scores)
    return Broker(access, Budget(Norm.LINF, 8), defence, 0, original, np.zeros(1, np.int64), **more)


def query(value=100, want=Want.SCORES, count=1):
    """Returns a query about so many pictures of one value."""
    return AttackQuery(want, np.full((count, 1, 2, 2), value, np.uint8), (0,) * count)


@pytest.mark.parametrize(
    ("access", "shown"),
    [
        (Access(AccessKind.SCORES), [[0.126, 0.874]]),
        (Access(AccessKind.SCORES, decimals=1), [[0.1, 0.9]]),
        (Access(AccessKind.SCORES, top_score_only=True), [[np.nan, 0.874]]),
        (Access(AccessKind.SCORES, decimals=2, top_score_only=True), [[np.nan, 0.87]]),
    ],
)
def test_scores_are_shown_as_the_access_model_says(access, shown) -> None:
    """Rounded, and without all but the largest."""
    found = broker(access).answer(query())
    assert found.labels is None
    np.testing.assert_allclose(found.values, np.float32(shown))


@pytest.mark.parametrize(("value", "counts"), [(108, 1), (109, 0)])
def test_a_success_is_one_within_the_budget(value, counts) -> None:
    """A query beyond it is none; an abstention within it is one, and so is a fault, which costs the picture (A7)."""
    access = Access(AccessKind.DECISION, queries=5)
    misread, abstained, faulted = (broker(access, [answer]) for answer in (1, ABSTAINED, FAULTED))
    for each in (misread, abstained, faulted):
        each.answer(query(value, Want.DECISION))
        assert each.record.fooled_at.tolist() == [counts]
    assert misread.record.failures.tolist() == abstained.record.failures.tolist() == [0]
    assert faulted.record.failures.tolist() == [counts]


def test_a_batch_that_overdraws_is_refused_as_a_whole() -> None:
    """Three are left and four are asked: none is put to the defence, and three are left still."""
    over = broker(Access(AccessKind.DECISION, queries=3, batch=4), [0] * 4, [[0, 1]] * 4)
    refused = over.answer(query(want=Want.DECISION, count=4))
    assert (refused.refused, refused.left, refused.labels) == (Refusal.BUDGET, [3] * 4, None)
    assert over.answer(query(want=Want.DECISION, count=3)).left == [0] * 3


@pytest.mark.parametrize(("want", "left"), [(Want.DECISION, 17), (Want.SCORES, 13), (Want.GRADIENT, 5)])
def test_each_kind_of_query_has_its_price(want, left) -> None:
    """Of twenty queries one picture takes three for its label, seven for its scores, fifteen for its gradient."""
    access = Access(AccessKind.GRADIENT, queries=20, decision_price=3, scores_price=7, gradient_price=15)
    asked = broker(access)
    assert asked.answer(query(want=want)).left == [left]
    while asked.answer(query(want=want)).refused is None:
        pass
    assert asked.record.queries.tolist() == [20 - 20 % (20 - left)]


def test_replies_are_sent_on_a_grid() -> None:
    """With a grid of two seconds a reply after 3.5 s waits half a second, and so does a refusal."""
    times, slept = iter([10.0, 13.5, 15.9]), []
    access = Access(AccessKind.DECISION, queries=1, reply_seconds=2.0)
    found = broker(access, clock=lambda: next(times), sleep=slept.append)
    found.answer(query(want=Want.DECISION))
    assert found.answer(query(want=Want.DECISION)).refused
    assert slept == pytest.approx([0.5, 0.1])
