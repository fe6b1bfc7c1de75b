"""Arrivals: submissions over the web, taken in at once, judged by the time of their arrival, answered once."""

import hashlib
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.application.contests import arrivals, seasons
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.application.submissions import trial_match_setup
from orchestrator.domain import contest_events
from orchestrator.errors import Busy, Rejected, SandboxLost, StoreFault, UsageError
from orchestrator.intake import package_writer
from orchestrator.ledger.contest_folder import ContestFolder

from .conftest import HOW, NOON

CLOSES = NOON + timedelta(hours=1)
IMAGE = "registry.example/one/attack@sha256:" + "5" * 64


def upload(cup, kind: str = "attack_noop", name: str = "") -> Path:
    """Returns a package as an upload left it: on the contest's file system, under a name of its own."""
    folder = cup.player(kind, name or kind)
    return package_writer.write_package(folder, cup.path / f"upload-{name or kind}").path


def arrive(cup, path: Path | None, actor: str = "person-1", now: datetime | None = None, **said):
    """Takes a file in for team One, whose last byte was here at `now`."""
    with seasons.administer(cup.folder.path, actor, cup.clock) as admin:
        words = {"team": "One", "task": "quarters"} | ({"file_name": "mine.tar"} if path else {}) | said
        return arrivals.record_arrival(admin, SubmissionRequest(**words), path, now=now)


def admit(cup, arrival: str):
    """Admits an arrival, as a worker does."""
    with seasons.administer(cup.folder.path, "worker", cup.clock) as admin:
        backend = play_rounds.ready_backend(admin.contest, cup.folder.path.resolve(), HOW)
        with arrivals.hold_arrival(admin, arrival):
            return arrivals.admit_arrival(admin, arrival, backend)


def close_at(cup, when) -> None:
    """Writes the end of submissions into the contest file."""
    cup.more = {"closes": when.isoformat()}
    cup.write()


def test_an_arrival_is_kept_and_on_record(cup) -> None:
    """Its file is moved, its digest, size, time and actor are in the ledger."""
    path = upload(cup)
    data = path.read_bytes()
    arrival = arrive(cup, path, file_name="C:\\own\\\x07mine.tar")
    [event] = cup.acts(contest_events.SubmissionArrived)
    assert (event.arrival, event.actor, event.file_name) == (arrival.id, "person-1", "mine.tar")
    assert (event.size, event.digest) == (len(data), "sha256:" + hashlib.sha256(data).hexdigest())
    assert not path.exists()
    [kept] = arrivals.arrival_folder(cup.folder.path, arrival.id).glob("package*")
    assert (kept.name, kept.read_bytes()) == ("package.tar", data)


def test_what_arrived_before_the_close_is_admitted_after_it(cup) -> None:
    """However long admission takes, the arrival's time counts; its actor is on the receipt's event."""
    close_at(cup, CLOSES)
    cup.wait(minutes=59)
    arrival = arrive(cup, upload(cup))
    cup.wait(days=2)
    answered = admit(cup, arrival.id)
    assert (answered.outcome, answered.submission) == ("received", "attack_noop")
    [received] = cup.acts(contest_events.SubmissionReceived)
    assert (received.arrival, received.actor) == (arrival.id, "person-1")
    assert not list(arrivals.arrival_folder(cup.folder.path, arrival.id).glob("package*"))


def test_what_arrives_before_the_close_waits_for_no_other_entry(cup, monkeypatch) -> None:
    """Somebody else writes to the ledger until after the close: what was whole before counts all the same."""
    close_at(cup, CLOSES)
    cup.wait(minutes=59)
    path, write = upload(cup), ContestFolder.writing

    def wait_and_write(folder: ContestFolder):
        cup.wait(minutes=2)
        return write(folder)

    with seasons.open_ledger(cup.folder.path, "person-1", cup.clock) as admin:
        monkeypatch.setattr(ContestFolder, "writing", wait_and_write)
        arrival = arrivals.record_arrival(admin, SubmissionRequest("One", "quarters", file_name="mine.tar"), path)
    assert datetime.fromisoformat(arrival.time) == CLOSES - timedelta(minutes=1)


def test_what_arrives_before_the_close_counts_after_others_wrote(cup, monkeypatch) -> None:
    """Its time stays that of its last byte, by which it is admitted too; the ledger's own times still only rise."""
    close_at(cup, CLOSES)
    cup.wait(minutes=59)
    path, write = upload(cup), ContestFolder.writing

    def write_before(folder: ContestFolder):
        monkeypatch.setattr(ContestFolder, "writing", write)
        cup.wait(minutes=2)
        with cup.desk() as desk:
            desk.append_event(contest_events.ContestAnnounced(actor="desk", title="Closed", text="It is over."))
        return write(folder)

    with seasons.open_ledger(cup.folder.path, "person-1", cup.clock) as admin:
        monkeypatch.setattr(ContestFolder, "writing", write_before)
        arrival = arrivals.record_arrival(admin, SubmissionRequest("One", "quarters", file_name="mine.tar"), path)
    assert datetime.fromisoformat(arrival.time) == CLOSES - timedelta(minutes=1)
    times = [entry.time for entry in cup.entries()]
    assert times == sorted(times)
    assert admit(cup, arrival.id).outcome == "received"
    with cup.desk() as desk:
        [entry] = desk.season.entries.values()
    assert entry.arrived_at == arrival.time


@pytest.mark.parametrize("late", [timedelta(), timedelta(milliseconds=1), timedelta(days=1)], ids=str)
def test_what_arrives_at_the_close_or_later_is_refused(cup, late) -> None:
    """Both say so: the refusal names the close, and nothing is noted or moved."""
    close_at(cup, CLOSES)
    cup.time = CLOSES + late
    path = upload(cup)
    with pytest.raises(Rejected, match="submissions closed at 2026-03-01T13:00:00"):
        arrive(cup, path)
    assert path.exists()
    assert cup.acts(contest_events.SubmissionArrived) == []
    assert not list((cup.folder.path / arrivals.ARRIVALS).glob("*"))


def test_the_desk_closes_as_before(cup) -> None:
    """What is submitted at the organizers' machine is judged by now, though something that waits came before."""
    close_at(cup, CLOSES)
    arrive(cup, upload(cup))
    cup.time = CLOSES
    with pytest.raises(Rejected, match="submissions closed"):
        cup.submit("Two", cup.player("attack_honest"))


def test_everything_against_a_hand_in_comes_at_once(cup) -> None:
    """The time, the task, the name and the team are told together."""
    close_at(cup, NOON)
    with pytest.raises(Rejected) as refusal:
        arrive(cup, upload(cup), team="Nobody", task="thirds", name="../up")
    assert [problem.place for problem in refusal.value.problems] == ["time", "task", "name", "team"]
    with pytest.raises(Rejected) as refusal:
        arrive(cup, None, image="registry.example/a:latest")
    assert {"image", "side"} <= {problem.place for problem in refusal.value.problems}


@pytest.mark.parametrize("both", [True, False], ids=["both", "neither"])
def test_an_arrival_is_one_thing(cup, both) -> None:
    """A file and an image, or neither, is the caller's mistake."""
    with pytest.raises(UsageError, match="either a file or an image"):
        arrive(cup, upload(cup) if both else None, image=IMAGE if both else "")


@pytest.mark.slow
def test_the_same_again_is_the_arrival_that_is_known(cup) -> None:
    """While it waits and while it plays; once it is withdrawn, it is another try. Another name is another too."""
    path = upload(cup)
    data = path.read_bytes()
    first = arrive(cup, path)

    def again(**said):
        path.write_bytes(data)
        return arrive(cup, path, **said)

    assert again().id == first.id
    admit(cup, first.id)
    assert again().id == first.id
    assert path.exists()
    assert again(name="other").id != first.id
    with cup.desk() as desk:
        desk.withdraw("attack_noop", "a bug")
    assert again().id != first.id


def test_an_image_arrives_by_its_digest(cup) -> None:
    """It has no file; the backend without images refuses it, and the refusal names the arrival."""
    arrival = arrive(cup, None, image=IMAGE, name="mine", side="attack")
    assert (arrival.image, arrival.size, arrival.file_name) == (IMAGE, 0, "")
    assert arrive(cup, None, image=IMAGE, name="mine", side="attack").id == arrival.id
    answered = admit(cup, arrival.id)
    assert answered.outcome == "refused"
    assert [act.arrival for act in cup.acts(contest_events.SubmissionRefused)] == [arrival.id]


def test_a_refusal_is_a_result(trial_cup) -> None:
    """What is wrong is in the outcome, in the ledger and in the steps; a second look changes nothing."""
    arrival = arrive(trial_cup, upload(trial_cup, "attack_dies_loading"))
    answered = admit(trial_cup, arrival.id)
    assert (answered.outcome, bool(answered.problems)) == ("refused", True)
    assert admit(trial_cup, arrival.id) == answered
    [refused] = trial_cup.acts(contest_events.SubmissionRefused)
    assert (refused.arrival, refused.actor, tuple(refused.problems)) == (arrival.id, "person-1", answered.problems)
    steps = arrivals.read_steps(trial_cup.folder.path, arrival.id)
    assert [step.step for step in steps if step.passed is False] == ["match, hello", "outcome"]
    assert all(step.problem and step.remedy for step in steps if step.passed is False)


def test_a_broken_archive_is_refused_in_its_steps(cup) -> None:
    """A file that is no archive is refused; the first step says what to do, and its text is printable."""
    path = cup.path / "upload"
    path.write_bytes(b"\x1b[2Jno archive")
    arrival = arrive(cup, path, file_name="\x1b[2J.zip")
    assert admit(cup, arrival.id).outcome == "refused"
    first, *_, last = arrivals.read_steps(cup.folder.path, arrival.id)
    assert (first.step, first.passed, last.step, last.passed) == ("archive and manifest", False, "outcome", False)
    text = (arrivals.arrival_folder(cup.folder.path, arrival.id) / "steps.jsonl").read_text()
    assert "\x1b" not in text


def test_steps_are_told_while_they_are_made(trial_cup, monkeypatch) -> None:
    """At the trial match the archive and the manifest are told already; the outcome comes last; a torn line is none."""
    arrival, seen = arrive(trial_cup, upload(trial_cup)), []
    real = trial_match_setup.play_trial_match

    def play(*words):
        seen.extend(arrivals.read_steps(trial_cup.folder.path, arrival.id))
        return real(*words)

    monkeypatch.setattr(trial_match_setup, "play_trial_match", play)
    assert arrivals.read_steps(trial_cup.folder.path, arrival.id) == []
    admit(trial_cup, arrival.id)
    assert [step.step for step in seen] == ["archive", "manifest", "image policy", "ownership"]
    steps = arrivals.read_steps(trial_cup.folder.path, arrival.id)
    assert (steps[-1].step, steps[-1].passed, steps[-1].detail) == ("outcome", True, "received as attack_noop")
    assert any(step.step.startswith("match, ") for step in steps)
    with (arrivals.arrival_folder(trial_cup.folder.path, arrival.id) / "steps.jsonl").open("a") as file:
        file.write('{"time": "2026')
    assert arrivals.read_steps(trial_cup.folder.path, arrival.id) == steps


def test_a_fault_of_ours_answers_nothing(cup, monkeypatch) -> None:
    """The arrival waits on with its file, and is admitted later."""
    arrival = arrive(cup, upload(cup))

    def lost(*_) -> None:
        raise SandboxLost("the engine went away")

    with monkeypatch.context() as patched:
        patched.setattr(trial_match_setup, "play_trial_match", lost)
        with pytest.raises(SandboxLost):
            admit(cup, arrival.id)
    assert cup.acts(contest_events.SubmissionRefused) == []
    assert admit(cup, arrival.id).outcome == "received"


def test_the_same_content_in_another_file_is_matched(cup) -> None:
    """An archive that holds what plays already uses up no try; the ledger says which submission it is."""
    first, second = upload(cup, name="one"), cup.path / "upload-two"
    second.write_bytes(first.read_bytes() + b"\0" * 512)
    ids = [arrive(cup, path).id for path in (first, second)]
    assert [admit(cup, each).submission for each in ids] == ["one", "one"]
    [matched] = cup.acts(contest_events.ArrivalMatched)
    assert (matched.arrival, matched.submission) == (ids[1], "one")
    assert len(cup.acts(contest_events.SubmissionReceived)) == 1


def test_one_admits_and_the_other_is_told(cup) -> None:
    """Whoever comes second is told that another admits it; an unknown arrival is a mistake."""
    arrival = arrive(cup, upload(cup))
    with cup.desk() as desk, arrivals.hold_arrival(desk, arrival.id), pytest.raises(Busy, match="another worker"):
        admit(cup, arrival.id)
    with pytest.raises(UsageError, match="no arrival"):
        admit(cup, "0" * 16)


def test_a_lost_file_is_no_refusal(cup) -> None:
    """Where the organizers lost the file, that is their fault and no answer to the team."""
    arrival = arrive(cup, upload(cup))
    (arrivals.arrival_folder(cup.folder.path, arrival.id) / "package.tar").unlink()
    with pytest.raises(StoreFault, match="is gone from"):
        admit(cup, arrival.id)
    assert cup.acts(contest_events.SubmissionRefused) == []


@pytest.mark.slow
def test_sweeping_removes_what_no_event_names(cup) -> None:
    """A folder without an event goes, and the file of an answered arrival; what waits stays."""
    waiting, answered = arrive(cup, upload(cup)), arrive(cup, upload(cup, name="second"))
    admit(cup, answered.id)
    folders = cup.folder.path / arrivals.ARRIVALS
    (folders / answered.id / "package.zip").write_text("left by a kill")
    (folders / ("0" * 16)).mkdir()
    (folders / ("0" * 16) / "package.zip").write_text("left by a kill")
    with cup.desk() as desk:
        arrivals.sweep(desk)
    assert {folder.name for folder in folders.iterdir()} == {waiting.id, answered.id}
    assert [path.parent.name for path in folders.glob("*/package*")] == [waiting.id]
    assert arrivals.read_steps(cup.folder.path, answered.id)


def test_a_file_that_cannot_be_noted_stays_with_the_caller(cup, monkeypatch) -> None:
    """The upload is whole where it was, so that it is submitted again; what lies in the contest is swept."""
    path = upload(cup)
    with cup.desk() as desk:

        def fails(*_, **__) -> None:
            raise StoreFault("the database went away")

        monkeypatch.setattr(desk, "append_event", fails)
        with pytest.raises(StoreFault, match="went away"):
            arrivals.record_arrival(desk, SubmissionRequest("One", "quarters", file_name="a.tar"), path)
        assert path.exists()
        arrivals.sweep(desk)
    assert not list((cup.folder.path / arrivals.ARRIVALS).iterdir())
    assert arrive(cup, path).outcome == ""


def leave_for_mask(cup) -> None:
    """Has the only member of team One join another team, and somebody else take the place."""
    with cup.desk() as desk:
        desk.add_team("One", [contest_events.PersonRecord(id="friend", name="F")])
        desk.add_team("Mask", [contest_events.PersonRecord(id="ONE", name="P. One")])


@pytest.mark.slow
def test_who_leaves_while_it_waits_is_bound_by_it(cup) -> None:
    """Its people are those who were in the team when it arrived, whoever is in it when it is admitted (A1)."""
    arrival = arrive(cup, upload(cup))
    leave_for_mask(cup)
    assert admit(cup, arrival.id).outcome == "received"
    with pytest.raises(Rejected, match=r"P\. One already plays attack on quarters"):
        cup.submit("Mask", cup.player("defence_honest"))


@pytest.mark.slow
def test_who_left_and_plays_the_other_side_keeps_it_out(cup) -> None:
    """One who was in the team when it arrived, and defends by another team since, is against its admission (A1)."""
    arrival = arrive(cup, upload(cup))
    leave_for_mask(cup)
    cup.submit("Mask", cup.player("defence_honest"))
    answered = admit(cup, arrival.id)
    assert answered.outcome == "refused"
    assert "P. One already plays defence on quarters; nobody plays both sides (A1)" in answered.problems[0]
