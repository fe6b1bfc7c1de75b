"""What becomes of a picture is decided by the picture: never by the order, by company, or by what came before."""

import dataclasses

import numpy as np
import pytest

from orchestrator.domain.outcomes import FAULTED, NOT_PLAYED
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.execution import job_steps
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.protocol import frames
from tests.execution.conftest import QUICK, first_value

NO_REPLAY = SamplingDesign(power=0.0)
SECRETS = [bytes([number]) * 32 for number in range(20)]
LIMITS = dataclasses.replace(QUICK, classify_seconds=0.01, ready_seconds=5, restarts=2)
CLEAN, ATTACKED = Cell("bad"), Cell("bad", "shift")
KILLERS = (0, 2, 3, 5, 6, 9, 10)
"""First values of pictures that are not answered: more of them than sandboxes were once replaced."""


def value(header, payload) -> list[int]:
    """Returns the first value of each picture of a question."""
    size = len(payload) // header["shape"][0]
    return [payload[place * size] for place in range(header["shape"][0])]


def crasher(header, payload):
    """Dies on some pictures."""
    return b"" if set(value(header, payload)) & set(KILLERS) else first_value(header, payload)


def hanger(header, payload):
    """Never answers some pictures."""
    return None if set(value(header, payload)) & set(KILLERS) else first_value(header, payload)


def mixture(header, payload):
    """Dies on some pictures, hangs on others, reports a fault on others, and says what is no answer to the rest."""
    worst = min(set(value(header, payload)) & set(KILLERS), default=None)
    if worst is None:
        return first_value(header, payload)
    said = [
        b"",
        None,
        frames.encode_frame({"type": "fault", "id": header["id"], "code": "x", "text": "x"}),
        b"nonsense",
    ]
    return said[worst % 4]


class Tired:
    """Dies at its third question, whatever that is."""

    def __init__(self, _seed) -> None:
        self.asked = 0

    def __call__(self, header, payload):
        """Answers one question."""
        self.asked += 1
        return b"" if self.asked == 3 else first_value(header, payload)


class Poisoned:
    """Dies at the question after some pictures: whose turn that is is decided by the order."""

    def __init__(self, _seed) -> None:
        self.poisoned = False

    def __call__(self, header, payload):
        """Answers one question."""
        if self.poisoned:
            return b""
        self.poisoned = bool(set(value(header, payload)) & set(KILLERS))
        return first_value(header, payload)


def expected(cell: Cell, fatal: tuple[int, ...]) -> list[int]:
    """Returns the answer to each picture: pictures hold their numbers, attacked ones one more."""
    shown = range(12) if cell.attack is None else range(1, 13)
    return [FAULTED if number in fatal else number % 4 for number in shown]


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize(
    ("player", "fatal"), [(crasher, KILLERS), (hanger, KILLERS), (mixture, KILLERS), (Tired, ()), (Poisoned, ())]
)
def test_answers_are_the_same_under_twenty_secrets(stage, player, fatal, batch, isolation) -> None:
    """A picture that ends a sandbox is charged and the rest is asked: the secret order changes nothing (A7)."""
    usual = (batch, isolation) == (4, Isolation.ATTACK) and player is not hanger  # each silence takes its time
    for secret in SECRETS if usual else SECRETS[:6]:
        limits = dataclasses.replace(LIMITS, classify_batch=batch)
        played = stage(defences={"bad": player}, replay=NO_REPLAY, limits=limits, isolation=isolation)
        played.setting = dataclasses.replace(played.setting, secret=secret)
        record = played.run()
        answers = record.answers("bad", 12)
        for cell in (CLEAN, ATTACKED):
            assert answers[cell].tolist() == expected(cell, fatal), (secret[0], cell)


def test_a_fault_in_company_is_on_record_and_charges_nobody(stage) -> None:
    """Its question is asked again picture by picture, each in a sandbox of its own."""
    limits = dataclasses.replace(LIMITS, classify_batch=4)
    played = stage(
        defences={"bad": lambda h, p: b"" if 5 in value(h, p) else first_value(h, p)}, replay=NO_REPLAY, limits=limits
    )
    played.run()
    clean, _ = (s for s in played.events("step_finished") if s.stage == "classify")
    assert [(fault.code, fault.pictures) for fault in clean.faults] == [("died", 0), ("died", 1)]
    rows = played.record.read_array(clean, "rows")
    place = int(np.flatnonzero(rows[:, 1] == 5)[0])
    group = rows[place // 4 * 4 : place // 4 * 4 + 4]
    assert len(set(group[:, 3])) == 4, "each picture of the question had a sandbox of its own"
    assert len(clean.sandboxes) == rows[-1, 3] + 1


def test_what_faults_cost_is_bounded_by_time(stage) -> None:
    """When faults have taken longer than they may, the rest is not played: it is no fault, and nobody answered it."""
    limits = dataclasses.replace(LIMITS, fault_seconds=0.0)
    played = stage(defences={"bad": crasher}, replay=NO_REPLAY, limits=limits)
    record = played.run()
    answers = record.answers("bad", 12)[CLEAN]
    left = int((answers == NOT_PLAYED).sum())
    assert left > 0
    steps = [s for s in played.events("step_finished") if s.stage == "classify" and s.cells[0].attack is None]
    codes = [(fault.code, fault.pictures) for step in steps for fault in step.faults]
    assert codes[-1] == ("gave-up", left)


def test_what_faults_cost_counts_after_a_kill(stage, monkeypatch) -> None:
    """A job that gave up asks nothing more, also where another orchestrator goes on with it."""
    monkeypatch.setattr(job_steps, "QUESTIONS_PER_STEP", 4)
    limits = dataclasses.replace(LIMITS, fault_seconds=0.0)
    played = stage(attacks={}, defences={"bad": lambda _header, _payload: b""}, replay=NO_REPLAY, limits=limits)

    def watch(event) -> None:
        """Ends the orchestrator after the first step."""
        if event.kind == "step_finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played.run(watch=watch)
    record = played.go_on()
    assert (record.answers("bad", 12)[CLEAN] == NOT_PLAYED).sum() == 11
    assert len(played.backend.orders) == 1


def test_sandboxes_that_never_get_ready_charge_no_picture(stage) -> None:
    """After so many in a row the job asks nothing, and nothing is scored as an answer."""
    played = stage(defences={"bad": crasher}, replay=NO_REPLAY, limits=LIMITS)
    start = played.backend.start

    def mute(order):
        """Starts a player that ends while it loads."""
        sandbox = start(order)
        if order.image.name == "bad":
            sandbox.stop()
            sandbox.send = lambda *_: True
            sandbox.receive = lambda _deadline: b""
        return sandbox

    played.backend.start = mute
    record = played.run()
    for cell in (CLEAN, ATTACKED):
        assert (record.answers("bad", 12)[cell] == NOT_PLAYED).all()
    for job in ("clean", "attacked"):
        steps = [s for s in played.events("step_finished") if s.stage == "classify"]
        codes = [fault.code for fault in steps[job == "attacked"].faults]
        assert codes == ["died"] * (LIMITS.restarts + 1) + ["gave-up"]


def test_an_images_digest_decides_nothing(stage) -> None:
    """A registry gives an image another digest than an engine: the same secret asks the same, in the same order."""
    asked, told, jobs = [], [], set()
    for image in ("bad", "pulled"):
        played = stage(defences={"bad": Tired}, images={"bad": image}, replay=SamplingDesign(power=0.9, cheat=0.1))
        played.backend.players[image] = Tired
        record = played.run()
        steps = [s for s in played.events("step_finished") if s.submission == "bad"]
        asked.append(sorted((s.stage, s.step, record.read_array(s, "rows").tolist()) for s in steps))
        told.append(sorted(played.backend.seeds))
        jobs.add(frozenset(s.job for s in steps))
    assert asked[0] == asked[1]
    assert told[0] == told[1]
    assert len(jobs) == 2, "the digest is in the job's id"
