"""The folder between controller and driver: written whole, taken once, read as another version's or a torn disk's."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain import events
from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Job, Stage
from orchestrator.errors import PodUsedUp, StoreFault
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.shared_volume import AttemptFolder, DriverOutcome, SharedVolume

BOUT = RoundRef("Cup & Co", "final", "digits", "sha256:" + "7" * 64)
ATTEMPT = Attempt(BOUT, Job(JobId("0123456789abcdef"), Stage.PERTURB, "fgsm"), 1)
ASSIGNMENT = Assignment(job="0123456789abcdef", run="cup-1", secret="5" * 64, image="sha256:" + "1" * 64, events=[])
FAILED = events.AttemptFailed(job="0123456789abcdef", attempt=1, code="sandbox-lost", message="the node is gone")


def assigned(folder: Path) -> tuple[SharedVolume, AttemptFolder]:
    """Returns both sides of an attempt that was assigned."""
    exchange = SharedVolume(folder / "cluster")
    exchange.write_assignment(ATTEMPT.name, ASSIGNMENT)
    return exchange, AttemptFolder(exchange.folder / ATTEMPT.name)


def test_what_is_assigned_is_taken_once(tmp_path) -> None:
    """A Job may start a second pod: its driver is refused, and the first one's marks stay."""
    exchange, outbox = assigned(tmp_path)
    assert not exchange.is_taken(ATTEMPT.name)
    assert outbox.take_assignment("pod-a") == ASSIGNMENT
    assert exchange.is_taken(ATTEMPT.name)
    with pytest.raises(PodUsedUp, match="taken before"):
        AttemptFolder(exchange.folder / ATTEMPT.name).take_assignment("pod-b")
    assert (exchange.folder / ATTEMPT.name / "begun").read_text() == "pod-a"


def test_batches_come_in_order_and_from_where_one_was(tmp_path) -> None:
    """Each is a tuple kept together; the end says how many there are."""
    exchange, outbox = assigned(tmp_path)
    outbox.take_assignment("pod")
    again = FAILED.model_copy(update={"attempt": 2})
    outbox.write_events(FAILED, again)
    outbox.write_events(again)
    assert list(exchange.read_batches(ATTEMPT.name, 0)) == [(FAILED, again), (again,)]
    assert list(exchange.read_batches(ATTEMPT.name, 1)) == [(again,)]
    assert exchange.read_end(ATTEMPT.name) is None
    half = PartialStep(step=3, completed=2, faults=[events.FaultRecord(code="died", message="it ended", pictures=1)])
    outbox.write_end(DriverOutcome.NEEDS_PLAYER, half)
    end = exchange.read_end(ATTEMPT.name)
    assert end is not None
    assert (end.outcome, end.batches) == (DriverOutcome.NEEDS_PLAYER, 2)
    assert exchange.read_partial_step(ATTEMPT.name) == half


def test_a_file_that_is_late_hides_those_behind_it(tmp_path) -> None:
    """A network file system may show the third file before the second: nothing is read out of order."""
    exchange, outbox = assigned(tmp_path)
    outbox.take_assignment("pod")
    for _ in range(3):
        outbox.write_events(FAILED)
    late = exchange.folder / ATTEMPT.name / "0002.json"
    late.rename(tmp_path / "late")
    assert len(list(exchange.read_batches(ATTEMPT.name, 0))) == 1
    (tmp_path / "late").rename(late)
    assert len(list(exchange.read_batches(ATTEMPT.name, 1))) == 2


def test_attempts_are_found_by_the_jobs_key(tmp_path) -> None:
    """Every folder of an attempt is known, also one without its assignment; what is no folder of one is not."""
    exchange, _ = assigned(tmp_path)
    for number in (2, 11):
        exchange.write_assignment(Attempt(BOUT, ATTEMPT.job, number).name, ASSIGNMENT)
    other = Attempt(BOUT, Job(JobId("f" * 16), Stage.PERTURB, "fgsm"), 5)
    exchange.write_assignment(other.name, ASSIGNMENT)
    (exchange.folder / Attempt(BOUT, ATTEMPT.job, 12).name).mkdir()
    (exchange.folder / "status.json").write_text("{}")
    (exchange.folder / f"perturb-fgsm-{ATTEMPT.job_key}-x").mkdir()
    mine = [(ATTEMPT.job_key, number) for number in (1, 2, 11, 12)]
    assert sorted(exchange.list_attempts()) == sorted([*mine, (other.job_key, 5)])
    assert exchange.read_assignment(Attempt(BOUT, ATTEMPT.job, 12).name) is None
    assert SharedVolume(tmp_path / "nothing").list_attempts() == []
    exchange.remove_attempt(ATTEMPT.name)
    assert sorted(exchange.list_attempts()) == sorted([*mine[1:], (other.job_key, 5)])
    exchange.remove_attempt(ATTEMPT.name)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"outcome": "won", "batches": 0}', '{"outcome": "needs-player", "batches": -1}']
)
def test_what_no_driver_wrote_is_one_clear_error(tmp_path, text) -> None:
    """Damaged or foreign files are named, with the remedy."""
    exchange, _ = assigned(tmp_path)
    (exchange.folder / ATTEMPT.name / "end.json").write_text(text)
    with pytest.raises(StoreFault, match=r"end\.json is not what this version writes: .*; use one version"):
        exchange.read_end(ATTEMPT.name)


def test_an_unknown_event_is_refused(tmp_path) -> None:
    """A newer runner's events are not passed over."""
    exchange, _ = assigned(tmp_path)
    body = json.loads(FAILED.model_dump_json()) | {"kind": "attempt_forgotten"}
    (exchange.folder / ATTEMPT.name / "0001.json").write_text(json.dumps([body]))
    with pytest.raises(StoreFault, match=r"0001\.json"):
        list(exchange.read_batches(ATTEMPT.name, 0))


def test_an_attempt_that_was_given_up_is_not_begun_again(tmp_path) -> None:
    """A driver that lives on after its folder was forgotten makes no other one."""
    exchange, outbox = assigned(tmp_path)
    outbox.take_assignment("pod")
    exchange.remove_attempt(ATTEMPT.name)
    for late in (lambda: outbox.write_events(FAILED), lambda: outbox.write_end(DriverOutcome.FINISHED)):
        with pytest.raises(StoreFault, match="gave this attempt up"):
            late()
    assert not (exchange.folder / ATTEMPT.name).exists()


def test_a_driver_that_still_writes_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    """An attempt that is given up while its driver writes is gone all the same, and the driver is told so."""
    exchange, driver = assigned(tmp_path)
    driver.take_assignment("pod-a")
    told: list[StoreFault] = []
    remove = os.rmdir

    def write_first(path: str, **options: Any) -> None:
        with pytest.raises(StoreFault, match="the controller gave this attempt up") as fault:
            driver.write_end(DriverOutcome.FINISHED)
        told.append(fault.value)
        remove(path, **options)

    monkeypatch.setattr(os, "rmdir", write_first)
    exchange.remove_attempt(ATTEMPT.name)
    assert len(told) == 1
    assert list(exchange.folder.iterdir()) == []


def test_what_a_killed_controller_was_removing_goes(tmp_path) -> None:
    """A folder whose removal was cut short goes with the next one."""
    (tmp_path / ".forgotten-0a").mkdir()
    (tmp_path / ".forgotten-0a" / "end.json").write_text("{}")
    SharedVolume(tmp_path).remove_attempt("none")
    assert list(tmp_path.iterdir()) == []


def test_no_assignment(tmp_path) -> None:
    """A driver in an empty folder says so."""
    with pytest.raises(StoreFault, match="there is no assignment"):
        AttemptFolder(tmp_path).take_assignment("pod")


def test_everything_is_private(tmp_path) -> None:
    """The assignment holds the round's secret: nobody else on a node may read it."""
    exchange, outbox = assigned(tmp_path)
    outbox.take_assignment("pod")
    outbox.write_events(FAILED)
    outbox.write_end(DriverOutcome.FAULT, PartialStep(step=0, completed=0), "sandbox-lost", "gone")
    files = sorted((exchange.folder / ATTEMPT.name).iterdir())
    assert [path.name for path in files] == ["0001.json", "assignment.json", "begun", "end.json", "partial_step.json"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_names_are_deterministic_and_fit(tmp_path) -> None:
    """The longest and strangest submission still makes a DNS label, and no two jobs or rounds share one."""
    seen = set()
    for commitment in ("sha256:" + "a" * 64, "sha256:" + "b" * 64):
        bout = RoundRef("c" * 200, "r" * 200, "t", commitment)
        for submission in ("a" * 64, "_-_", "x_y-z", "9"):
            for job in ("0" * 16, "1" * 16):
                attempt = Attempt(bout, Job(JobId(job), Stage.CLASSIFY, submission), 123_456_789)
                assert len(attempt.name) <= 63
                assert attempt.name.strip("-") == attempt.name
                assert set(attempt.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
                assert all(len(value) <= 63 for value in attempt.labels().values())
                seen.add(attempt.name)
    assert len(seen) == 16
