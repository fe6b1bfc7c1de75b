"""A round that is run again: it stays one that can be promoted from and published, whatever the run added."""

import json
from pathlib import Path

import pytest

from orchestrator.application.contests import promotion, rescoring, season_rounds
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import round_record
from orchestrator.application.rounds.execution_target import LocalTarget
from orchestrator.domain import contest_events, events
from orchestrator.errors import Cancelled, UsageError
from orchestrator.formats.tournament.events import FinalistsPromoted
from tests.blob_files import find_blob

from .conftest import HOW, Cup

pytestmark = pytest.mark.slow  # each plays rounds
PROBED = events.ClusterProbed(namespace="sparring", outcome="blocked", probed_at="2026-11-20T08:00:00+00:00")


@pytest.fixture
def entered(cup: Cup) -> Cup:
    """The contest with an attack and a defence."""
    cup.submit("One", cup.player("attack_honest"))
    cup.wait(hours=1)
    cup.submit("Two", cup.player("defence_honest"))
    return cup


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has this machine say of itself what a cluster's probe says of a cluster."""
    monkeypatch.setattr(LocalTarget, "probe_event", PROBED)


def published(cup: Cup, name: str, kind: str = "sealed") -> Path:
    """Publishes a bundle, which is checked as anybody would."""
    with cup.desk() as desk:
        return bundles.publish_bundle(desk, cup.path / name, kind, unfinished=kind == "full").path


def kinds(cup: Cup, phase: str = "initial") -> list[str]:
    """Returns the kinds of events of a round."""
    return [entry.event.kind for entry in cup.round_entries(phase)]


def damage(cup: Cup) -> None:
    """Cuts the array of what the baseline answered: it is there and is not what its name says."""
    ends = [e.event for e in cup.round_entries("initial") if isinstance(e.event, events.StepFinished)]
    digest = next(step.blobs["rows"] for step in ends if step.submission == "measure")
    array = find_blob(cup.folder.path / "blobs", digest)
    array.write(array.read()[:7])


def test_a_probe_is_noted_where_something_is_played(played, probed) -> None:
    """What a cluster's probe said is on record before a newcomer is played, and an idle run notes nothing."""
    before = played.entries(), played.round_entries("initial")
    played.play("initial")
    assert (played.entries(), played.round_entries("initial")) == before
    played.submit("Three", played.player("defence_constant"))
    played.play("initial")
    told = kinds(played)[len(before[1]) :]
    assert told.index("plan_made") < told.index("cluster_probed") < told.index("step_finished")
    assert (told.count("cluster_probed"), told[-1]) == (1, "round_closed")
    published(played, "sealed")


def test_what_comes_after_the_end_is_followed_by_an_end(played) -> None:
    """A ledger with a probe after its end is no complete round: it is run again."""
    ledger = played.folder.round("initial", "quarters").ledger()
    ledger.append(PROBED, time="2026-11-20T08:00:00.000+00:00")
    ledger.close()
    with played.desk() as desk:
        desk.append_event(
            contest_events.RoundPlayed(
                actor="desk", round="initial", task="quarters", head=played.round_entries("initial")[-1].hash
            )
        )
    with pytest.raises(UsageError, match="initial round of quarters is not as it was when it was last complete"):
        published(played, "early")
    (again,) = played.play("initial")
    assert again.complete
    assert kinds(played)[-2:] == ["cluster_probed", "round_closed"]
    published(played, "sealed")


@pytest.mark.parametrize("kind", ["sealed", "full"])
def test_a_mended_round_is_published(played, kind) -> None:
    """A closed round whose array was damaged is played again from there, ends again, and its bundle holds."""
    damage(played)
    (again,) = played.play("initial")
    assert again.complete
    assert "steps_lost" in kinds(played)
    assert kinds(played)[-1] == "round_closed"
    published(played, "bundle", kind)


def test_an_interrupted_mend_is_not_complete(played) -> None:
    """Between the loss and the end the round says that it is not finished, and nobody is promoted from it."""
    damage(played)

    def interrupt(event: events.Event) -> None:
        if isinstance(event, events.StepsLost):
            raise Cancelled("cancelled")

    with played.desk() as desk, pytest.raises(Cancelled):
        season_rounds.play_round(desk, "initial", HOW, interrupt, "quarters")
    results = round_record.compute_results(played.folder.round("initial", "quarters").path)
    assert not results.complete
    assert {job.status for job in results.jobs} == {"finished", "pending"}
    with pytest.raises(UsageError, match="round initial of quarters is not finished; run `sparring round run"):
        played.promote()
    assert played.acts(FinalistsPromoted) == []


def test_a_newcomer_without_a_cell_ends_the_final_again(played) -> None:
    """Where only finalists play the final, who comes later is admitted to it and plays nothing: it is complete."""
    played.write(final="finalists")
    with played.desk() as desk:
        rescoring.record_decision(desk, "a smaller final", apply=True)
    played.promote()
    played.play("final")
    played.submit("Three", played.player("defence_constant"))
    played.play("initial")
    (final,) = played.play("final")
    assert final.complete
    assert kinds(played, "final")[-2:] == ["submission_admitted", "round_closed"]
    published(played, "full", "full")


def test_promotion_wants_the_round_that_was_noted(entered, monkeypatch) -> None:
    """A round that was killed after its end and before the act that tells it is run again first, or no bundle holds."""

    def killed(_: object) -> None:
        raise Cancelled("cancelled")

    with monkeypatch.context() as patch:
        patch.setattr(round_record, "write_results", killed)
        with pytest.raises(Cancelled):
            entered.play("initial")
    assert kinds(entered)[-1] == "round_closed"
    with pytest.raises(UsageError, match=r"run `sparring round run .* initial` to go on"):
        entered.promote()
    assert entered.acts(FinalistsPromoted) == []
    entered.play("initial")
    entered.promote()
    published(entered, "sealed")


def test_promotion_leaves_nobody_out_who_did_not_play(played) -> None:
    """Who came after the last run is named, and can be promoted once the round was run again (A4)."""
    played.submit("Three", played.player("defence_constant"))
    with pytest.raises(UsageError, match=r"defence_constant came after .* run `sparring round run .* initial`"):
        played.promote()
    assert played.acts(FinalistsPromoted) == []
    with played.desk() as desk:
        desk.withdraw("defence_constant", "a bug")
    assert played.promote() == (("attack_honest",), ("defence_honest",))


def test_promotion_is_for_all_tasks_or_none(played) -> None:
    """Where the round of a second task was not played, nobody is promoted on the first."""
    with played.desk() as desk, pytest.raises(UsageError, match="the round initial of halves was not played"):
        promotion.promote(desk)
    assert played.acts(FinalistsPromoted) == []


def everything(cup: Cup, isolation: str = "attack", **more: object) -> Cup:
    """Plays a season to its end, with replays, one of two finalists of each side still free to leave."""
    cup.more = {"isolation": isolation, "replay": {"power": 0.4, "cheat": 0.3, "attacks": 0.5}, **more}
    cup.write()
    with cup.desk() as desk:
        for team in ("Four", "Five"):
            desk.add_team(team, [contest_events.PersonRecord(id=team.lower(), name=f"P. {team}")])
    for team, kind in (("Four", "attack_noop"), ("Five", "defence_constant")):
        cup.submit(team, cup.player(kind))
    cup.play("initial")
    cup.promote()
    cup.play("final")
    return cup


def leave(cup: Cup, who: str, how: str) -> None:
    """Has a submission withdrawn or disqualified."""
    with cup.desk() as desk:
        getattr(desk, how)(who, "two people, one team")


def shown(results, who: str) -> tuple[list, list, dict]:
    """Returns the cells of a submission, the scores of its rows, and what it used."""
    cells = [cell for cell in results.cells if who in (cell.attack, cell.defence)]
    rows = [row.exact for board in results.boards for row in board.rows if row.submission == who]
    part = next(part for part in results.submissions if part.id == who)
    return cells, rows, {"faults": part.faults, "forfeits": part.forfeits, "sandboxes": part.sandboxes}


@pytest.mark.parametrize(
    ("isolation", "acts"),
    [
        ("attack", {"initial": ("defence_honest", "withdraw"), "final": ("attack_honest", "withdraw")}),
        ("round", {"initial": ("attack_honest", "disqualify"), "final": ("defence_honest", "disqualify")}),
    ],
)
def test_what_was_played_stays_when_somebody_leaves(entered, isolation, acts) -> None:
    """A round that is run again after an act keeps every cell and score of who left, and plays nothing (A4, A13)."""
    everything(entered, isolation)
    for phase, (who, how) in acts.items():
        folder = entered.folder.round(phase, "quarters").path
        before, told = shown(round_record.compute_results(folder), who), entered.round_entries(phase)
        leave(entered, who, how)
        (again,) = entered.play(phase)
        assert shown(again, who) == before
        assert entered.round_entries(phase) == told
        row = next(row for board in again.boards for row in board.rows if row.submission == who)
        assert (row.rank, row.reason.endswith("two people, one team")) == (None, True)


@pytest.mark.parametrize(
    ("who", "how", "kind"), [("attack_honest", "withdraw", "sealed"), ("defence_honest", "disqualify", "full")]
)
def test_who_left_is_in_every_later_bundle(entered, who, how, kind) -> None:
    """After somebody left and another came, the round has the cells of both, and its bundle holds (X2).

    In the final, too: a finalist that left keeps the mean over those it met, and who came later does not take it away.
    """
    everything(entered)
    before, at_the_end = (
        shown(round_record.compute_results(entered.folder.round(phase, "quarters").path), who)
        for phase in ("initial", "final")
    )
    leave(entered, who, how)
    entered.submit("Three", entered.player("defence_constant", "late"))
    (again,) = entered.play("initial")
    cells, rows, used = shown(again, who)
    assert (set(before[0]) <= set(cells), rows, used) == (True, *before[1:])
    assert "late" in {cell.defence for cell in again.cells}
    entered.promote_again()
    (final,) = entered.play("final")
    assert {who, "late"} <= {name for cell in final.cells for name in (cell.attack, cell.defence)}
    assert shown(final, who)[1] == at_the_end[1]
    bundle = published(entered, "bundle", kind)
    lines = (bundle / "rounds/initial/quarters/cells.jsonl").read_text().splitlines()
    named = {json.loads(line)[who.partition("_")[0]] for line in lines}
    assert {who, "late"} - named == ({"late"} if who.startswith("attack") else set())


def test_a_former_finalist_keeps_its_cells(entered) -> None:
    """Where only finalists play the final, who was promoted first and not again stays in what was played."""
    entered.rules |= {"final": "finalists", "finalists": 2}
    everything(entered)
    with entered.desk() as desk:
        desk.add_team("Six", [contest_events.PersonRecord(id="six", name="P. Six")])
    before = shown(round_record.compute_results(entered.folder.round("final", "quarters").path), "attack_noop")
    entered.submit("Six", entered.player("attack_honest", "better"))
    entered.play("initial")
    assert "attack_noop" not in entered.promote_again()[0]
    (final,) = entered.play("final")
    assert shown(final, "attack_noop")[0] == before[0]
    published(entered, "full", "full")


def test_a_round_that_somebody_left_half_played_ends(entered) -> None:
    """Who leaves between two runs of an interrupted round keeps what was played, and the rest is not played."""
    entered.more = {"isolation": "attack"}
    entered.write()
    played: list[events.Event] = []

    def interrupt(event: events.Event) -> None:
        played.append(event)
        if isinstance(event, events.JobFinished) and event.submission == "defence_honest":
            raise Cancelled("cancelled")

    with entered.desk() as desk, pytest.raises(Cancelled):
        season_rounds.play_round(desk, "initial", HOW, interrupt, "quarters")
    leave(entered, "defence_honest", "withdraw")
    (results,) = entered.play("initial")
    assert results.complete
    assert len([cell for cell in results.cells if cell.defence == "defence_honest"]) == 1
    published(entered, "sealed")
