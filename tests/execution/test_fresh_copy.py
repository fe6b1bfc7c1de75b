"""What a replay's sandboxes are started from: a copy of the image's files, made for the job and removed with it."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Stage
from orchestrator.errors import JobsParked, SandboxLost
from orchestrator.execution.fresh_copy import FreshCopies, FreshCopy
from orchestrator.integrity.replay_session import SessionPurpose
from orchestrator.ledger.stores.memory import MemoryLedger
from orchestrator.sandboxes.base import Image
from tests.kubernetes_api.clock import eventually

from .cheats import EVERYTHING, LENIENT, Counts, sessions

ORIGINAL = Image("sha256:original", "entry")


@pytest.mark.slow
def test_replays_run_from_a_copy_and_the_play_does_not(stage) -> None:
    """Every sandbox of a replay, and no other, has the copy; it is on record with the job and gone afterwards."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    record = played.run()
    replays = {job.id for job in played.plan().jobs if job.stage is Stage.REPLAY}
    started = {(order.job in replays, "-copy-" in order.image.digest) for order in played.backend.orders}
    assert started == {(True, True), (False, False)}
    assert len({order.image.digest for order in played.backend.orders if order.job in replays}) == len(replays)
    named = {(event.job in replays, "-copy-" in event.fresh_copy) for event in played.events("step_finished")}
    assert named == {(True, True), (False, False)}
    assert played.backend.copied == []
    assert {finding.image for finding in record.round.findings} == {"sha256:cheat"}


class Stalls(Counts):
    """Answers nothing."""

    def reply(self, header, value):
        """Lets the deadline pass."""


@pytest.mark.slow
def test_who_stalls_in_copies_alone_is_found(stage) -> None:
    """The control sessions, and no others, run from the image itself: who knows the copy answers there (A10)."""
    limits = dataclasses.replace(LENIENT, classify_seconds=0.05)
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING, limits=limits)
    start = played.backend.start

    def start_by_image(order):
        played.backend.players["cheat"] = Stalls if "-copy-" in order.image.digest else Counts
        return start(order)

    played.backend.start = start_by_image
    record = played.run()
    assert [finding.kind for finding in record.round.findings] == [FindingKind.REFUSED]
    from_image = {step.session.purpose for step in sessions(played, "cheat") if not step.fresh_copy}
    assert from_image == {SessionPurpose.TRIGGER_CONTROL}
    assert record.round.copied("cheat")


@pytest.mark.slow
def test_a_kill_before_the_end_of_a_job_leaves_its_copy_on_record(stage) -> None:
    """The ledger ends with the last step of a replay: its end is written without another sandbox."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    played.run()
    whole = list(played.ledger.read())
    ends = [entry.event.kind == "job_finished" and entry.event.stage is Stage.REPLAY for entry in whole]
    played.ledger = MemoryLedger()
    for entry in whole[: ends.index(True)]:
        played.ledger.append(entry.event, time=entry.time)
    started = len(played.backend.orders)
    assert played.go_on().round.copied("cheat")
    assert len(played.backend.orders) == started


@pytest.mark.slow
def test_a_copy_goes_with_a_job_that_fails(stage) -> None:
    """Where every start of a replay is lost, its submission waits, and no copy is left."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    played.backend.lose = lambda what, count: what == "start" and "-copy-" in played.backend.orders[-1].image.digest
    with pytest.raises(JobsParked):
        played.run()
    assert played.backend.copied == []


@pytest.mark.slow
def test_copies_are_made_before_the_play_ends(stage) -> None:
    """While the last two jobs of the play are left, the images are copied whose replays come first."""
    defences = {f"cheat{number}": Counts for number in range(5)}
    played = stage(defences=defences, replay=EVERYTHING)
    append, waiting = played.ledger.append, []

    def record_copies(*new, time):
        if any(event.kind == "play_closed" for event in new):
            eventually(lambda: len(played.backend.copied) == 3)
            waiting.extend(played.backend.copied)
        append(*new, time=time)

    played.ledger.append = record_copies
    played.run()
    assert len(waiting) == 3
    assert played.backend.copied == []
    assert len({order.image.digest for order in played.backend.orders if "-copy-" in order.image.digest}) == 5


class Copier:
    """A backend that copies, and fails at what it is told to."""

    def __init__(self, *, copies: bool = True, fails: bool = False, refuses: int = 0) -> None:
        self.asked = self.made = self.removed = 0
        self._copies, self._fails, self._refuses = copies, fails, refuses
        self._runs = threading.Event()
        self._runs.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Copies nothing within the context, and goes on after it."""
        self._runs.clear()
        yield
        self._runs.set()

    def fresh_copy(self, image, run):
        """Returns another image, or the same."""
        self.asked += 1
        if self.asked <= self._refuses:
            raise SandboxLost("the engine is away")
        self._runs.wait()
        self.made += 1
        return Image("sha256:copy", image.name, rollback=self._undo) if self._copies else image

    def _undo(self) -> None:
        self.removed += 1
        if self._fails:
            raise SandboxLost("the engine is away")


def test_it_is_made_once_whoever_asks() -> None:
    """Threads that ask at the same time get one copy."""
    backend = Copier()
    copied = FreshCopy(backend, ORIGINAL, "run")
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(copied.get_image().digest)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (seen, backend.made) == (["sha256:copy"] * 8, 1)
    copied.discard()
    copied.discard()
    assert (copied.digest, backend.removed) == ("sha256:copy", 1)


def test_a_backend_that_copies_nothing_removes_nothing() -> None:
    """The image itself is no copy, is not on record as one, and stays."""
    backend = Copier(copies=False)
    copied = FreshCopy(backend, ORIGINAL, "run")
    assert copied.get_image() is ORIGINAL
    copied.discard()
    assert (copied.digest, backend.removed) == ("", 0)


def test_a_copy_that_cannot_be_removed_ends_nothing() -> None:
    """It is left for the sweep at the end of the round: the answers are not lost for it."""
    copied = FreshCopy(Copier(fails=True), ORIGINAL, "run")
    copied.get_image()
    copied.discard()
    assert copied.digest == "sha256:copy"


@pytest.fixture
def copies() -> Iterator[Callable[[Copier], FreshCopies]]:
    """Returns a function that makes the copies of a round of the submissions a to f, of which e is a baseline."""
    made = []

    def make(backend: Copier) -> FreshCopies:
        roster = {name: SimpleNamespace(baseline=name == "e") for name in "abcdef"}
        context = SimpleNamespace(backend=backend, roster=roster, images=dict.fromkeys(roster, ORIGINAL), run="run")
        made.append(FreshCopies(context))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_three_copies_wait_at_most(copies) -> None:
    """The next image is copied when a replay takes a copy; what nobody takes is removed at the end."""
    backend = Copier()
    round_copies = copies(backend)
    round_copies.make_ahead("eabcdf")
    eventually(lambda: backend.made == 3)
    assert round_copies.take("e") is None
    taken = round_copies.take("a")
    assert taken.get_image().digest == "sha256:copy"
    eventually(lambda: backend.made == 4)
    round_copies.make_ahead("ab")
    taken.discard()
    round_copies.close()
    assert (backend.made, backend.removed) == (4, 4)


def test_a_replay_need_not_wait_for_other_copies(copies) -> None:
    """A copy that the thread has not come to is made by the replay that needs it, once."""
    backend = Copier()
    round_copies = copies(backend)
    with backend.paused():
        round_copies.make_ahead("abc")
        eventually(lambda: backend.asked == 1)
        last = round_copies.take("c")
        threading.Thread(target=last.get_image).start()
        eventually(lambda: backend.asked == 2)
    last.discard()
    round_copies.close()
    assert (backend.made, backend.removed) == (3, 3)


def test_a_copy_that_cannot_be_made_ahead_is_tried_again(copies) -> None:
    """The engine fails while an image is copied ahead; the replay gets its copy nevertheless."""
    backend = Copier(refuses=1)
    round_copies = copies(backend)
    round_copies.make_ahead("a")
    eventually(lambda: backend.asked == 1)
    assert round_copies.take("a").get_image().digest == "sha256:copy"


def test_what_a_job_of_another_process_took_is_removed(copies) -> None:
    """Such a job's own runner never runs, so nobody but the round discards its copy."""
    backend = Copier()
    round_copies = copies(backend)
    round_copies.take("a").get_image()
    round_copies.close()
    assert (backend.made, backend.removed) == (1, 1)


def test_no_more_copies_are_made_ahead_after_one_failed(copies) -> None:
    """Where the disk has no room, a copy for a later replay would take what the next one needs."""
    backend = Copier(refuses=1)
    round_copies = copies(backend)
    round_copies.make_ahead("abcdf")
    eventually(lambda: backend.asked == 3)
    for name in "abc":
        round_copies.take(name).get_image()
    round_copies.close()
    assert (backend.asked, backend.made, backend.removed) == (4, 3, 3)
