"""A controller that is killed between any two of its deeds: the next one goes on, and every event comes once.

SPARRING_SOAK kills it at every point; without, every seventh point is tried, from another one in each test.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.errors import LeaseLost
from orchestrator.executors.kubernetes.lease import Lease
from orchestrator.executors.kubernetes.shared_volume import SharedVolume

from .scripted_round import Cluster, Rig, ScriptedContainers, clusters, crashes, is_spent, jobs_of, plays, rig_on, wait

EVERY = 1 if os.environ.get("SPARRING_SOAK") else 7
EXPECTED = {
    "a": ["0", "driver-lost:1", "1", "end"],
    "b": ["store:1", "0", "1", "end"],
    "c": ["0", "1", "end"],
}
SCRIPTS = {("a", 1): crashes, ("b", 1): is_spent}
PLAN = jobs_of("a", "b", "c<a,b")


class Killed(BaseException):
    """As if the process had ended here."""


@dataclass
class Fuse:
    """Counts deeds, and ends the controller at one of them."""

    at: int = -1
    deeds: list[str] = field(default_factory=list)

    def burn(self, what: str) -> None:
        """One more deed."""
        self.deeds.append(what)
        if len(self.deeds) - 1 == self.at:
            raise Killed(what)


class Fused:
    """An API with a fuse before and after every verb."""

    def __init__(self, api, fuse: Fuse) -> None:
        self._api, self._fuse = api, fuse

    def __getattr__(self, verb):
        if verb == "watch":
            return self._api.watch

        def ask(kind, *given, **more):
            self._fuse.burn(f"before {verb} {kind.plural}")
            answer = getattr(self._api, verb)(kind, *given, **more)
            self._fuse.burn(f"after {verb} {kind.plural}")
            return answer

        return ask


@dataclass(frozen=True)
class FusedVolume(SharedVolume):
    """A volume with a fuse before and after everything that is written to it."""

    fuse: Fuse = field(default_factory=Fuse)

    def write_assignment(self, attempt, assignment) -> None:
        """Puts it down."""
        self.fuse.burn("before assign")
        super().write_assignment(attempt, assignment)
        self.fuse.burn("after assign")

    def remove_attempt(self, attempt) -> None:
        """Removes it."""
        self.fuse.burn("before forget")
        super().remove_attempt(attempt)
        self.fuse.burn("after forget")


def live(rig: Rig, fuse: Fuse) -> bool:
    """Runs a controller until its fuse burns; returns whether it came to its end."""
    happened = rig.run(PLAN, api=Fused(rig.api(), fuse), shared_volume=FusedVolume(rig.exchange.folder, fuse))
    try:
        for batch in happened:
            fuse.burn("yielded, not kept")
            rig.ledger += batch
            fuse.burn("kept")
    except Killed:
        happened.close()
        return False
    return True


@pytest.fixture(scope="module")
def theatre() -> Iterator[tuple[Cluster, ScriptedContainers]]:
    """One cluster for all rounds of this file."""
    with clusters() as made:
        yield made


def begin(theatre: tuple[Cluster, ScriptedContainers], folder: Path, name: str) -> Rig:
    """A new round on it."""
    return rig_on(*theatre, folder / name, name, scripts=dict(SCRIPTS))


def ended_well(rig: Rig, at: str) -> None:
    """Nothing is missing, nothing is twice, nothing is left."""
    assert {job: rig.kinds(job) for job in EXPECTED} == EXPECTED, at
    wait(lambda: rig.left_over() == [], f"nothing left after {at}: {rig.left_over()}")
    # A driver that had just finished its job may find its folder gone: the next controller wants nothing more of it.
    assert [each for each in rig.problems if "gave this attempt up" not in str(each)] == [], at
    assert [half.completed for half in rig.halves if half][-1:] == [3], at


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
def test_a_controller_may_be_killed_anywhere(theatre, tmp_path, share) -> None:
    """Before and after each call to the API, each file, each event: the ledger comes out the same."""
    whole = Fuse()
    rig = begin(theatre, tmp_path, f"whole-{share}")
    assert live(rig, whole)
    ended_well(rig, "no kill")
    many = len(whole.deeds)
    assert {"before create jobs", "after delete jobs", "before forget", "kept"} <= set(whole.deeds)
    for at in range(share, many, 4 if EVERY == 1 else 4 * EVERY):
        rig, fuse = begin(theatre, tmp_path, f"at-{at}"), Fuse(at)
        if not live(rig, fuse):
            assert live(rig, Fuse())
        ended_well(rig, f"deed {at}: {fuse.deeds[-1]}")


def test_a_controller_may_be_killed_again_and_again(theatre, tmp_path) -> None:
    """Every controller gets a few deeds further than the one before; at last the round ends."""
    rig = begin(theatre, tmp_path, "again")
    for further in range(4, 400):
        if live(rig, Fuse(further)):
            break
    ended_well(rig, "many kills")
    assert further > 6


@pytest.mark.slow
def test_a_paused_controller_learns_that_it_was_replaced(theatre, tmp_path) -> None:
    """The second waits and says so, takes over when the first is silent, and the first writes nothing any more."""
    rig = begin(theatre, tmp_path, "two")
    rig.script = rig.scripts[("a", 1)] = rig.scripts[("b", 1)] = plays
    told: list[str] = []
    first = Lease(rig.api(1), f"sparring-{rig.bout.label_value}", "first", seconds=1.0)
    second = Lease(rig.api(1), f"sparring-{rig.bout.label_value}", "second", seconds=1.0)
    first.acquire(told.append)
    happened = rig.run(PLAN, lease=first)
    rig.ledger += next(happened)
    stop(first)
    thread = threading.Thread(target=lambda: second.acquire(told.append))
    thread.start()
    thread.join(120)
    assert told[0].startswith("another controller, first, runs this round")
    assert second.is_held
    kept = len(rig.ledger)
    rig.play(PLAN, lease=second)
    assert {job: rig.kinds(job) for job in "abc"} == {job: ["0", "1", "end"] for job in "abc"}
    calls = dict(rig.cluster.api.calls)
    with pytest.raises(LeaseLost):
        next(happened)
    assert all(rig.cluster.api.calls[key] == calls.get(key, 0) for key in (("create", "jobs"), ("delete", "jobs")))
    assert len(rig.ledger) > kept
    second.release()


def stop(lease: Lease) -> None:
    """Stops a lease's renewals, as a process that is paused has none."""
    lease._stop.set()
    lease._renewal_thread.join()
