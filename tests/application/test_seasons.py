"""A contest over weeks: opened, held by one process, played round by round, promoted, judged again."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from orchestrator.application.contests import promotion, rescoring, season_rounds, seasons
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import play_rounds
from orchestrator.domain import contest_events, events
from orchestrator.domain.plan import Stage
from orchestrator.errors import JobsParked, Rejected, StoreFault, UsageError
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.intake.contest_file import Contest

from .conftest import HOW, Cup

TEAMS = {"One": "attack_honest", "Two": "defence_honest", "Three": "defence_constant"}


def enter(cup) -> None:
    """Has each team submit."""
    for team, kind in TEAMS.items():
        cup.submit(team, cup.player(kind))
        cup.wait(hours=1)


@pytest.fixture
def entered(cup):
    """The contest with one submission of each team."""
    enter(cup)
    return cup


@pytest.fixture(scope="module")
def played_once(tmp_path_factory):
    """The same after its initial round. Tests get copies of it."""
    cup = Cup(tmp_path_factory.mktemp("played")).open()
    enter(cup)
    cup.play("initial")
    return cup


def rows(results, board: str) -> dict:
    """Returns a board's rows by submission."""
    found = next(b for b in results.boards if b.name == board)
    return {row.submission: row for row in found.rows}


def test_a_new_contest_runs_as_it_is(tmp_path) -> None:
    """`init` writes a contest file without a problem, a key only its owner reads, and the first act with who."""
    folder = seasons.create_contest(tmp_path / "cup", "tournament", "ada")
    assert Contest(folder.file).file.contest == "cup"
    assert (folder.path / "key").stat().st_mode & 0o077 == 0
    assert (folder.path / ".gitignore").read_text() == "*\n"
    with seasons.administer(folder.path) as desk:
        opened = desk.season.opening
        assert desk.season.entries == {}
    assert (opened.actor, opened.key_fingerprint) == ("ada", folder.key().fingerprint)
    assert opened.contest["contest"] == "cup"


@pytest.mark.parametrize("template", seasons.TEMPLATES)
@pytest.mark.parametrize(("name", "contest"), [("spring-2027", "spring-2027"), ("2027", "2027"), ("My Cup", None)])
def test_a_new_contest_has_the_id_of_its_folder(tmp_path, template, name, contest) -> None:
    """A folder whose name is no id leaves that of the template; two contests in one database need two ids."""
    folder = seasons.create_contest(tmp_path / name, template, "ada")
    assert Contest(folder.file).file.contest == (contest or template.replace("_", "-"))


def test_a_contest_is_opened_once(empty) -> None:
    """A folder with other things, an unknown template and a second opening are refused, and nothing is overwritten."""
    empty.write()
    with pytest.raises(UsageError, match="not empty"):
        seasons.create_contest(empty.folder.path, "tournament")
    with pytest.raises(UsageError, match="there is no template 'golf'; the templates are tournament"):
        seasons.create_contest(empty.path / "new", "golf")
    with pytest.raises(UsageError, match="too long a name"):
        seasons.open_contest(empty.folder.path, "x" * 121)
    seasons.open_contest(empty.folder.path, "desk")
    key = empty.folder.key().fingerprint
    with pytest.raises(UsageError, match="holds a contest already"):
        seasons.open_contest(empty.folder.path, "desk")
    assert empty.folder.key().fingerprint == key
    assert len(empty.entries()) == 1


def test_an_opening_that_was_killed_is_made_again(empty) -> None:
    """A ledger without its first act holds no contest yet."""
    empty.write()
    empty.folder.ledger().close()
    seasons.open_contest(empty.folder.path, "desk")
    assert len(empty.acts(contest_events.ContestOpened)) == 1


def test_a_folder_without_a_contest_is_named(empty) -> None:
    """Every command but `init` and `open` wants a contest, and says how to make one."""
    with pytest.raises(UsageError, match=r"there is no folder .+ `sparring contest init"), empty.desk():
        pass


def test_an_altered_ledger_is_refused(cup) -> None:
    """An act that was changed in the file breaks the chain, and no desk opens."""
    import sqlite3  # noqa: PLC0415  only this test writes where nobody may
    from contextlib import closing  # noqa: PLC0415

    with closing(sqlite3.connect(cup.folder.path / "contest.sqlite")) as ledger:
        ledger.execute("DROP TRIGGER ledger_no_update")
        ledger.execute("UPDATE ledger SET event = replace(event, 'P. Two', 'P. Too') WHERE seq = 3")
        ledger.commit()
    with pytest.raises(StoreFault, match="ledger entry 3 does not continue the chain"), cup.desk():
        pass


@pytest.mark.slow
def test_a_whole_season(entered) -> None:
    """Initial round, promotion and final follow each other, each with its boards, and the ledger knows each end."""
    (initial,) = entered.play("initial")
    assert [board.name for board in initial.boards] == ["attacks_initial", "defences_initial"]
    assert entered.promote() == (("attack_honest",), ("defence_constant", "defence_honest"))
    (final,) = entered.play("final")
    assert [board.name for board in final.boards] == ["attacks", "defences"]
    assert final.complete
    assert Fraction(rows(final, "attacks")["attack_honest"].exact) == Fraction(100, 2)
    ends = {(act.round, act.task): act.head for act in entered.acts(contest_events.RoundPlayed)}
    assert ends == {
        ("initial", "quarters"): entered.round_entries("initial")[-1].hash,
        ("final", "quarters"): entered.round_entries("final")[-1].hash,
    }
    assert final.ledger == ends["final", "quarters"]


@pytest.mark.slow
def test_who_comes_after_the_finalists_were_named_is_told(played) -> None:
    """It is received, and its receipt says that it is in the final only if the organizers promote again."""
    played.promote()
    played.submit("One", played.player("attack_noop"))
    warnings = {each.id: " ".join(each.warnings) for each in played.acts(contest_events.SubmissionReceived)}
    assert "the finalists of quarters were named before this came" in warnings["attack_noop"]
    assert "finalists" not in warnings["attack_honest"]


@pytest.mark.slow
def test_a_contest_lists_the_rounds_that_were_begun(entered) -> None:
    """In the order of the contest file, narrowed by round and task; none before one was played."""
    assert seasons.begun_rounds(entered.folder.path) == []
    entered.play("initial")
    (begun,) = seasons.begun_rounds(entered.folder.path)
    assert begun.path == entered.folder.round("initial", "quarters").path
    assert seasons.begun_rounds(entered.folder.path, "final") == []
    assert seasons.begun_rounds(entered.folder.path, None, "halves") == []


@pytest.mark.slow
def test_a_preview_needs_no_wall(entered) -> None:
    """Nothing is started, so that it asks for no `--allow-unisolated` where strangers' programs would."""
    with entered.desk() as desk:
        found = season_rounds.preview_round(desk, "initial", replace(HOW, allow_unisolated=False), "quarters")
    assert found[0].stages


def test_a_round_without_isolation_is_refused_before_it_begins(entered) -> None:
    """On the process backend strangers' programs need the option that allows it; without it nothing is recorded."""
    with entered.desk() as desk, pytest.raises(UsageError, match=r"3 submissions are .* or --allow-unisolated"):
        season_rounds.play_round(desk, "initial", replace(HOW, allow_unisolated=False), lambda _: None, "quarters")
    assert not entered.folder.round("initial", "quarters").exists


@pytest.mark.slow
def test_rounds_have_an_order(entered) -> None:
    """An unknown round, a final before its promotion and a promotion before its round are refused with the remedy."""
    with pytest.raises(UsageError, match="has no round 'semi'; it has initial, final"):
        entered.play("semi")
    with pytest.raises(UsageError, match="there is no task 'thirds'; the tasks are quarters, halves"):
        entered.play("initial", "thirds")
    with pytest.raises(UsageError, match="nobody was promoted on quarters yet; run `sparring round promote` first"):
        entered.play("final")
    with pytest.raises(UsageError, match="the round initial of quarters was not played"):
        entered.promote()
    assert entered.acts(FinalistsPromoted) == []


@pytest.mark.slow
def test_a_round_that_was_played_is_not_played_again(played) -> None:
    """The same command a second time adds nothing to either ledger."""
    before = played.entries(), played.round_entries("initial")
    played.play("initial")
    assert (played.entries(), played.round_entries("initial")) == before


@pytest.mark.slow
def test_a_newcomer_runs_only_its_own_cells(played) -> None:
    """After a new attack the round is played again with one new attack and its meetings; the rest stays (X4)."""
    before = [e.event.job for e in played.round_entries("initial") if isinstance(e.event, events.JobFinished)]
    played.submit("One", played.player("attack_noop"))
    (after,) = played.play("initial")
    ends = [e.event for e in played.round_entries("initial") if isinstance(e.event, events.JobFinished)]
    new = [(end.stage, end.submission) for end in ends[len(before) :]]
    assert sorted(new) == [(Stage.CLASSIFY, "measure"), (Stage.PERTURB, "attack_noop")]
    assert rows(after, "attacks_initial")["attack_noop"].reason == "attack_honest stands for this team (A4)"
    assert len(played.acts(contest_events.RoundPlayed)) == 2


@pytest.mark.slow
def test_the_final_copies_the_initial_round(played) -> None:
    """In the final only the meetings that are new are played; the others come from the initial round (X4)."""
    played.promote()
    played.play("final")
    told = [entry.event for entry in played.round_entries("final")]
    plan = next(event for event in told if isinstance(event, events.PlanMade))
    new = [job for job in plan.jobs if not job.origin_round]
    assert [(job.submission, [cell.attack for cell in job.cells]) for job in new] == [
        ("defence_constant", ["attack_honest"]),
        ("defence_honest", ["attack_honest"]),
    ]
    reused = next(event for event in told if isinstance(event, events.JobsReused))
    assert set(reused.jobs) == {job.id for job in plan.jobs if job.origin_round == "initial"}
    assert reused.head == played.round_entries("initial")[-1].hash


@pytest.mark.slow
@pytest.mark.parametrize("hours", [1, 0, -1])
def test_the_earlier_of_equals_goes_on(cup, hours) -> None:
    """Earlier is what the ledger received first, also where the clock stood still or was set back between (A16)."""
    cup.write(finalists=1)
    before = cup.submit("Two", cup.player("attack_honest", "second"))
    cup.wait(hours=hours)
    receipt = cup.submit("One", cup.player("attack_honest", "first"))
    assert (receipt.received == before.received) == (hours <= 0)
    assert receipt.entry > before.entry
    assert [w for w in receipt.warnings if w.startswith("time:")] == ([] if hours >= 0 else list(receipt.warnings))
    assert len(receipt.warnings) == (hours < 0)
    assert all(f"the entry before is of {before.received}, which is recorded" in told for told in receipt.warnings)
    cup.submit("Three", cup.player("defence_honest"))
    (initial,) = cup.play("initial")
    assert [row.rank for row in initial.boards[0].rows if row.rank] == [1, 2]
    assert cup.promote() == (("second",), ("defence_honest",))


@pytest.mark.slow
def test_who_withdraws_after_promotion_is_gone_from_the_final(played) -> None:
    """A withdrawn finalist does not play, and the other side is measured without it (A13)."""
    played.promote()
    with played.desk() as desk:
        desk.withdraw("defence_constant", "the team found a bug")
    (final,) = played.play("final")
    assert "defence_constant" not in rows(final, "defences")
    assert rows(final, "attacks")["attack_honest"].score == 100


@pytest.mark.slow
def test_who_is_disqualified_after_the_final_leaves_its_boards(played) -> None:
    """Boards are judged with what the contest knows now: no number is played again (A13)."""
    played.promote()
    played.play("final")
    with played.desk() as desk:
        desk.disqualify("defence_constant", "two people, one team")
        (final,) = season_rounds.latest_results(desk, only="quarters")
    row = rows(final, "defences")["defence_constant"]
    assert (row.rank, row.reason) == (None, "disqualified: two people, one team")
    assert {s.id: s.status for s in final.submissions if not s.baseline} == {
        "attack_honest": "played",
        "defence_honest": "played",
        "defence_constant": "disqualified",
    }
    assert rows(final, "attacks")["attack_honest"].score == 100


@pytest.mark.slow
def test_boards_are_of_the_latest_round_unless_one_is_named(entered) -> None:
    """`board` shows nothing before anything was played, then the latest round of each task."""
    with entered.desk() as desk:
        assert season_rounds.latest_results(desk) == []
    entered.play("initial")
    with entered.desk() as desk:
        assert [results.round for results in season_rounds.latest_results(desk)] == ["initial"]
        with pytest.raises(UsageError, match="the round 'final' of quarters was not played"):
            season_rounds.latest_results(desk, "final", "quarters")


@pytest.mark.slow
def test_a_submission_that_was_tampered_with_does_not_play(entered) -> None:
    """What the organizers keep of a submission has to be what was received."""
    kept = entered.folder.path / entered.acts(contest_events.SubmissionReceived)[0].folder
    kept.chmod(0o755)
    (kept / "player.py").chmod(0o644)
    (kept / "player.py").write_text("raise SystemExit\n")
    with pytest.raises(Rejected, match="what was received is sha256:"):
        entered.play("initial")
    assert not entered.folder.round("initial", "quarters").exists


@pytest.mark.slow
def test_a_baseline_cannot_take_a_submissions_name(entered) -> None:
    """A baseline that is added later under the id of a submission is refused before anything runs."""
    text = json.loads(entered.folder.file.read_text())
    text["baselines"].append({"folder": str(entered.player("attack_noop")), "name": "attack_honest"})
    entered.folder.file.write_text(json.dumps(text))
    with pytest.raises(Rejected, match="attack_honest: a baseline has this name now"):
        entered.play("initial")


def test_a_season_needs_its_measures(cup) -> None:
    """Without the classifier that attacks are measured on, the initial round is refused before anything runs (A11)."""
    cup.submit("One", cup.player("attack_honest"))
    cup.write(initial={"classifier": "nobody", "weights": {"fgsm": 1}})
    with pytest.raises(Rejected, match="the initial round is measured with nobody, not among the baselines"):
        cup.play("initial")


@pytest.mark.slow
def test_what_decides_play_cannot_change(played) -> None:
    """A rule that decides what is played is refused after the first round, to be judged and to be played (A8)."""
    played.write(on_missing="clean")
    with played.desk() as desk, pytest.raises(UsageError, match=r"rules\.on_missing decide what is played"):
        rescoring.rescore(desk)
    with pytest.raises(UsageError, match=r"rules\.on_missing in .* changed since the contest was judged"):
        played.play("initial")
    played.write(on_missing="held")  # the default, now in words
    played.play("initial")


@pytest.mark.slow
def test_no_round_is_played_under_rules_that_nobody_applied(played) -> None:
    """A changed rule is applied or put back before the next round: a final is not judged otherwise by accident."""
    played.promote()
    played.write(clean_floor={"baseline": "measure", "points": 10})
    with pytest.raises(
        UsageError, match=r"rules\.clean_floor in .* changed since the contest was judged; see `sparring rescore"
    ):
        played.play("final")
    with played.desk() as desk:
        rescoring.record_decision(desk, "the jury wants a floor", apply=True)
    played.promote()
    (final,) = played.play("final")
    assert final.rules["clean_floor"] == {"baseline": "measure", "points": "10"}


@pytest.mark.slow
def test_a_weight_that_is_written_with_decimals_is_no_change(entered) -> None:
    """A ledger writes 1.0 as 1, and the rules that judged the initial round hold in the final all the same."""
    rules = json.loads(entered.folder.file.read_text())["rules"]["initial"]
    entered.write(initial=rules | {"weights": dict.fromkeys(rules["weights"], 1.0)})
    entered.play("initial")
    with entered.desk() as desk:
        assert not rescoring.changed_rules(desk)


@pytest.mark.slow
def test_other_tasks_may_come_and_go(played) -> None:
    """A task that is added to the contest file later does not keep the others from being played again."""
    text = json.loads(played.folder.file.read_text())
    text["tasks"].append(text["tasks"][0] | {"name": "thirds"})
    played.folder.file.write_text(json.dumps(text))
    played.submit("One", played.player("attack_noop"))
    (after,) = played.play("initial")
    assert "attack_noop" in rows(after, "attacks_initial")


@pytest.mark.slow
def test_a_rescoring_is_looked_at_first(played) -> None:
    """Board against board is shown, and nothing is changed by looking (A12)."""
    shown = (played.folder.round("initial", "quarters").path / "results.json").read_text()
    before = played.entries()
    played.write(clean_floor={"baseline": "measure", "points": 10})
    with played.desk() as desk:
        (found,) = rescoring.rescore(desk, "quarters")
    assert (found.task, found.round) == ("quarters", "initial")
    assert rows(found.before, "defences_initial")["defence_constant"].rank == 1
    assert rows(found.after, "defences_initial")["defence_constant"].rank is None
    assert (found.outcome_before.defences, found.outcome_after.defences) == (
        ["defence_constant", "defence_honest"],
        ["defence_honest"],
    )
    assert played.entries() == before
    assert (played.folder.round("initial", "quarters").path / "results.json").read_text() == shown


@pytest.mark.slow
def test_a_rescoring_is_applied_as_an_act(played) -> None:
    """Applied, the new rules hold for every board, file and promotion, and the old ones stay on record (A12)."""
    played.write(clean_floor={"baseline": "measure", "points": 10})
    with played.desk() as desk:
        rescoring.record_decision(desk, "the jury wants a floor", apply=True)
    (changed,) = played.acts(contest_events.RulesChanged)
    assert (changed.actor, changed.reason) == ("desk", "the jury wants a floor")
    written = json.loads((played.folder.round("initial", "quarters").path / "results.json").read_text())
    row = next(row for row in written["boards"][1]["rows"] if row["submission"] == "defence_constant")
    assert "below the floor" in row["reason"]
    assert played.promote()[1] == ("defence_honest",)
    played.write()
    with played.desk() as desk:
        (found,) = rescoring.rescore(desk)
    assert rows(found.before, "defences_initial")["defence_constant"].rank is None


@pytest.mark.slow
def test_a_rescoring_is_dropped_as_an_act(played) -> None:
    """Dropped, it is on record that it was looked at, and every board stays (A12)."""
    played.write(clean_floor={"baseline": "measure", "points": 10})
    with played.desk() as desk:
        rescoring.record_decision(desk, "too late for that", apply=False)
        (results,) = season_rounds.latest_results(desk)
    (dropped,) = played.acts(contest_events.RejudgementDropped)
    assert dropped.rules["clean_floor"] == {"baseline": "measure", "points": "10"}
    assert rows(results, "defences_initial")["defence_constant"].rank == 1


@pytest.mark.slow
def test_settling_needs_a_reason(played) -> None:
    """Neither is done without one."""
    with played.desk() as desk, pytest.raises(UsageError, match="reason"):
        rescoring.record_decision(desk, "", apply=True)
    assert played.acts(contest_events.RulesChanged) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sealed", "full"])
def test_who_left_before_the_final_is_in_no_bundle_of_it(entered, kind) -> None:
    """A sandbox of the initial round also saw the pictures of an attack that left: the final leaves them out."""
    with entered.desk() as desk:
        desk.add_team("Four", [contest_events.PersonRecord(id="four", name="P. Four")])
    entered.submit("Four", entered.player("attack_noop"))
    entered.play("initial")
    with entered.desk() as desk:
        desk.withdraw("attack_noop", "a bug")
    entered.promote()
    (final,) = entered.play("final")
    assert "attack_noop" not in {cell.attack for cell in final.cells}
    with entered.desk() as desk:
        bundle = bundles.publish_bundle(desk, entered.path / "bundle", kind, unfinished=True).path
    assert bundles.verify_bundle_or_receipt(bundle, entered.folder.key().fingerprint)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["docker", "kubernetes"])
def test_a_received_folder_plays_where_folders_do(entered, backend) -> None:
    """On a backend that starts images each is named with what to do, and nothing else is asked of the backend."""
    with entered.desk() as desk:
        here = play_rounds.ready_backend(desk.contest, entered.path / "workspace", HOW)
        other = SimpleNamespace(name=backend, admit=here.admit, image_store=here.image_store)
        with pytest.raises(Rejected) as caught:
            season_rounds.task_round(desk, "initial", "quarters", other)
    assert [problem.place for problem in caught.value.problems] == [
        "attack_honest",
        "defence_honest",
        "defence_constant",
    ]
    for problem in caught.value.problems:
        assert f"{backend} starts images" in problem.what
        assert "--backend docker" in problem.remedy


@pytest.mark.slow
def test_a_submission_that_is_gone_ends_no_round_for_others(entered) -> None:
    """Its copy was removed: it waits, everybody else is played on record, and nobody is promoted until it is mended."""
    with entered.desk() as desk:
        digest = desk.season.entries["defence_constant"].digest
    kept = entered.folder.path / "images" / digest.removeprefix("sha256:")
    away = entered.path / "away"
    shutil.move(kept, away)
    with pytest.raises(JobsParked, match="defence_constant waits: "):
        entered.play("initial")
    with entered.desk() as desk:
        (played,) = season_rounds.latest_results(desk, "initial", "quarters")
        with pytest.raises(UsageError, match="is not finished"):
            promotion.promote(desk, "quarters")
    assert [part.submission for part in played.waiting] == ["defence_constant"]
    assert {cell.defence for cell in played.cells} == {"measure", "defence_honest"}
    shutil.move(away, kept)
    (played,) = entered.play("initial")
    assert played.complete
    assert played.waiting == []


@pytest.mark.slow
def test_nobody_is_promoted_past_a_baseline_that_fails(cup) -> None:
    """The classifier that attacks are measured on dies while it loads: promotion is refused with that reason."""
    cup.player("defence_dies_loading", "measure")
    for team, kind in TEAMS.items():
        cup.submit(team, cup.player(kind))
    (played,) = cup.play("initial")
    assert len(played.alarms) == 1
    with cup.desk() as desk, pytest.raises(Rejected, match="The baseline measure failed on every picture"):
        promotion.promote(desk, "quarters")
    assert cup.acts(FinalistsPromoted) == []
