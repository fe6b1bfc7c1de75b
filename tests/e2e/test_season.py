"""The season of examples/tournament/, rule by rule: each test names the rule of the contest that it sees kept."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.application.rounds import round_record
from orchestrator.cli.app import app
from orchestrator.domain import contest_events, events
from orchestrator.domain.outcomes import FAULTED, NOT_ASKED, NOT_PLAYED, Forfeit
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.season import Season
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.formats.tournament.format import finalists
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.season_fold import fold_season
from orchestrator.ledger.stores.base import Ledger

pytestmark = [pytest.mark.xdist_group("season"), pytest.mark.timeout(900)]

TASKS = ("digits", "faint", "euclid", "familiar")
PROMOTED_ATTACKS = ["beyond", "mean", "aloud", "right", "mirror"]
PROMOTED_DEFENCES = ["levels", "house", "closed", "hands", "quarters"]


def read(ledger: Ledger) -> list:
    """Returns a ledger's events and closes it."""
    try:
        return [entry.event for entry in ledger.read()]
    finally:
        ledger.close()


def folded(cup: Path) -> Season:
    """Returns what the contest's ledger tells."""
    ledger = ContestFolder(cup).ledger()
    try:
        return fold_season(ledger.read())
    finally:
        ledger.close()


def promoted_on(cup: Path, task: str) -> FinalistsPromoted:
    """Returns who went on to the final round of a task."""
    found = finalists(folded(cup), task)
    assert found is not None
    return found


def results(cup: Path, phase: str, task: str = "digits") -> dict:
    """Returns the results file of a round."""
    return json.loads((cup / "rounds" / phase / task / "results.json").read_text("utf-8"))


def board(cup: Path, phase: str, name: str, task: str = "digits") -> dict[str, dict]:
    """Returns a board's rows by submission, in order."""
    found = next(board for board in results(cup, phase, task)["boards"] if board["name"] == name)
    return {row["submission"]: row for row in found["rows"]}


def ranked(found: dict[str, dict]) -> list[str]:
    """Returns who is ranked, in order."""
    return [name for name, row in found.items() if row["rank"]]


def test_every_round_is_played(season) -> None:
    """Four tasks have an initial and a final round, each complete, and the contest's ledger knows how each ended."""
    played = folded(season).played_rounds
    assert set(played) == {(phase, task) for phase in ("initial", "final") for task in TASKS}
    for (phase, task), act in played.items():
        document = results(season, phase, task)
        assert document["complete"]
        assert document["ledger"] == act.head


def test_a1_a_fourth_task_is_refused(season) -> None:
    """A1: Ada plays three tasks; her fourth submission is refused for that and uses up nothing."""
    seen = folded(season)
    refused = [act for act in seen.refusals if act.team == "Corner Shop"]
    assert [act.problems for act in refused] == [
        [
            (
                "team: Ada already takes part in 3 tasks: euclid, faint, familiar (A1); "
                "at most 3 at a time: withdraw from one first"
            )
        ]
    ]
    assert {entry.task for entry in seen.entries.values() if entry.team == "Corner Shop"} == set(TASKS) - {"digits"}


def test_a1_nobody_plays_both_sides(season) -> None:
    """A1: Bo attacks the digits in one team, so another team with Bo cannot defend them."""
    refused = next(act for act in folded(season).refusals if act.team == "Bystanders")
    assert refused.problems == [
        (
            "team: Bo already plays attack on digits; nobody plays both sides (A1); "
            "withdraw the other submission, or enter without this person"
        )
    ]
    assert not any(entry.team == "Bystanders" for entry in folded(season).entries.values())


@pytest.mark.parametrize("task", TASKS)
def test_a3_everybody_meets_everybody(season, task) -> None:
    """A3: in the final every defence meets clean pictures and every attack, baselines included, on all pictures."""
    document = results(season, "final", task)
    sides = {side: [s["id"] for s in document["submissions"] if s["side"] == side] for side in ("attack", "defence")}
    met = {(cell["defence"], cell["attack"]) for cell in document["cells"]}
    assert met == {(d, a) for d in sides["defence"] for a in (None, *sides["attack"])}
    assert {cell["total"] for cell in document["cells"]} == {document["task"]["pictures"]}


def test_a4_a_fourth_submission_is_refused(season) -> None:
    """A4: after three defences of one team for the digits the fourth is refused."""
    refused = next(act for act in folded(season).refusals if act.team == "Three Tries")
    assert refused.problems == [
        (
            "team: Three Tries has used its 3 submissions for defence on digits (A4); "
            "the best of them stands; none can be added"
        )
    ]
    tries = [e for e in folded(season).entries.values() if (e.team, e.task) == ("Three Tries", "digits")]
    assert [(entry.id, entry.attempt) for entry in tries] == [("levels_means", 1), ("levels_five", 2), ("levels", 3)]


def test_a4_the_best_of_a_team_stands(season) -> None:
    """A4: the best by initial score is ranked and promoted; the others are visible, unranked, in both rounds."""
    initial, final = board(season, "initial", "defences_initial"), board(season, "final", "defences")
    assert ranked(initial)[0] == "levels"
    for name in ("levels_means", "levels_five"):
        assert float(initial[name]["score"]) > float(initial["levels"]["score"])
        for shown in (initial, final):
            assert (shown[name]["rank"], shown[name]["reason"]) == (None, "levels stands for this team (A4)")
            assert shown[name]["score"] is not None
    assert set(promoted_on(season, "digits").superseded) == {"levels_means", "levels_five"}


@pytest.mark.parametrize(("phase", "name"), [("initial", "defences_initial"), ("final", "defences")])
def test_a5_organizers_win_no_prize(season, phase, name) -> None:
    """A5: the house's defence is ranked, no prize goes to it, and the places after it move up."""
    found = board(season, phase, name)
    assert found["house"]["rank"] is not None
    assert found["house"]["prize_rank"] is None
    assert found["house"]["no_prize"] == "a member is of the organizing institution (A5)"
    others = [row for row in found.values() if row["rank"] and row["submission"] != "house"]
    assert [row["prize_rank"] for row in others] == list(range(1, len(others) + 1))
    assert others[-1]["prize_rank"] == others[-1]["rank"] - 1
    assert not any(row["prize_rank"] for row in found.values() if not row["rank"])


def test_a6_closed_source_is_promoted_and_not_ranked(season) -> None:
    """A6: without licence and source a submission is warned at the desk, promoted, and unranked at final scoring."""
    receipt = json.loads((season / "receipts" / "closed.json").read_text())
    assert [warning.split(";")[0] for warning in receipt["warnings"]] == [
        "licence missing (A6)",
        "source missing (A6)",
    ]
    assert board(season, "initial", "defences_initial")["closed"]["rank"] == 3
    assert "closed" in promoted_on(season, "digits").defences
    row = board(season, "final", "defences")["closed"]
    assert (row["rank"], row["reason"]) == (None, "licence missing (A6); source missing (A6)")


def test_a7_a_crashing_defence_misclassifies(season) -> None:
    """A7: a picture that it crashes on is charged, clean ones too, and what its faults left no time for is not played.

    A forfeited one it is not asked. No attack is measured on it.
    """
    cells = [cell for cell in results(season, "final")["cells"] if cell["defence"] == "goats"]
    for cell in cells:
        assert cell["faults"] == cell["fooled"]
        assert cell["fooled"] + cell["not_played"] == cell["total"] - cell["forfeits"]
    assert {cell["accuracy"] for cell in cells if not cell["forfeits"]} == {0.0}
    reason = board(season, "initial", "defences_initial")["goats"]["reason"]
    assert "clean pictures were not played" in reason
    shown = next(s for s in results(season, "final")["submissions"] if s["id"] == "goats")
    assert {fault["code"] for fault in shown["faults"]} <= {"died", "gave-up"}
    assert shown["status"] == "faulted"


def test_a8_a_crashing_attack_cannot_win(season) -> None:
    """A8: what the crashing attack never delivered is grey, held, and never asked: its delta is below zero."""
    record, _ = round_record.read_round(season / "rounds" / "initial" / "digits")
    made = record.adversarial_examples("cold")
    assert (made.forfeits == Forfeit.MISSING).all()
    assert (made.pixels == 128).all()
    assert (record.answers("fgsm_trained", 50)[Cell("fgsm_trained", "cold")] == NOT_ASKED).all()
    row = board(season, "initial", "attacks_initial")["cold"]
    assert Fraction(row["exact"]) == -100 * (1 - record_accuracy(record, "fgsm_trained"))
    assert row["score"] < 0


def record_accuracy(record, defence: str) -> Fraction:
    """Returns a defence's accuracy on clean pictures, exactly."""
    right = record.answers(defence, 50)[Cell(defence)] == record.samples.labels
    return Fraction(int(right.sum()), 50)


def clean(cup: Path, defence: str) -> float:
    """Returns a defence's accuracy on clean pictures."""
    cells = results(cup, "initial")["cells"]
    return next(cell["accuracy"] for cell in cells if (cell["defence"], cell["attack"]) == (defence, None))


def test_a9_a10_the_cheater_is_found_and_disqualified(season) -> None:
    """A10: the defence that throws coins is found by replay in the initial round and goes nowhere; nobody else is."""
    for phase in ("initial", "final"):
        document = results(season, phase)
        assert {finding["submission"] for finding in document["findings"]} == {"coin"}
        assert {rule for finding in document["findings"] for rule in finding["rules"]} == {"A10"}
        assert next(s["status"] for s in document["submissions"] if s["id"] == "coin") == "disqualified"
    row = board(season, "initial", "defences_initial")["coin"]
    assert row["rank"] is None
    assert row["reason"].startswith("disqualified: finding")
    assert "coin" not in promoted_on(season, "digits").submissions


def test_a11_a12_the_first_five_go_on(season) -> None:
    """A11, A12: of at least eight ranked a side the first five are promoted, in the order of their boards."""
    attacks, defences = board(season, "initial", "attacks_initial"), board(season, "initial", "defences_initial")
    assert len(ranked(attacks)) >= 8
    assert len(ranked(defences)) >= 8
    going_on = promoted_on(season, "digits")
    assert list(going_on.attacks) == ranked(attacks)[:5] == PROMOTED_ATTACKS
    assert list(going_on.defences) == ranked(defences)[:5] == PROMOTED_DEFENCES


@pytest.mark.parametrize("task", TASKS)
def test_a13_only_finalists_are_ranked_in_the_final(season, task) -> None:
    """A13: the final ranks promoted submissions only, and everybody else says why not."""
    going_on = promoted_on(season, task)
    for name, promoted in (("attacks", going_on.attacks), ("defences", going_on.defences)):
        found = board(season, "final", name, task)
        assert set(ranked(found)) == set(promoted) - {"closed"}
        assert all(row["reason"] for row in found.values() if not row["rank"])


def test_a14_violations_are_forfeited_and_counted(season) -> None:
    """A14: every candidate beyond the budget is measured exactly, forfeited as missing, and counted on the board."""
    record, _ = round_record.read_round(season / "rounds" / "initial" / "digits")
    made = record.adversarial_examples("leap")
    assert (made.forfeits == Forfeit.BUDGET).all()
    assert made.distances.max() == 102
    assert board(season, "initial", "attacks_initial")["leap"]["values"]["violations"]["value"] == 50
    for other in ("beyond", "mean", "mirror"):
        assert record.adversarial_examples(other).distances.max() <= 51
        assert not record.adversarial_examples(other).violations.any()


def test_a16_the_fifth_place_goes_to_the_earlier_one(season) -> None:
    """A16: three attacks tie across places 5 to 7 without violations; the one that came first goes on."""
    found = board(season, "initial", "attacks_initial")
    tied = ["mirror", "down", "tails"]
    assert len({found[name]["exact"] for name in tied}) == 1
    assert {found[name]["values"]["violations"]["value"] for name in tied} == {0}
    assert [found[name]["rank"] for name in tied] == [5, 6, 7]
    times = [folded(season).entries[name].received_at for name in tied]
    assert times == sorted(times)
    assert [name in promoted_on(season, "digits").attacks for name in tied] == [True, False, False]


def test_a8_attacks_that_deliver_nothing_are_not_ranked(season) -> None:
    """A8: a crash and fifty leaps beyond the budget measure nothing: they are shown, and no defence's mean has them."""
    found = board(season, "initial", "attacks_initial")
    assert found["cold"]["exact"] == found["leap"]["exact"]
    for name in ("cold", "leap"):
        assert (found[name]["rank"], found[name]["reason"]) == (None, "delivered no picture that counts (A8)")


@pytest.mark.parametrize("name", ["record", "seven"])
def test_a17_below_the_floor_nobody_ranks(season, name) -> None:
    """A17: a constant classifier and one that errs on 30 % of clean pictures rank on no board.

    They lose less than the undefended baseline, so by deltas alone they would rank above it.
    """
    floor = clean(season, "undefended") - 0.1
    assert clean(season, name) < floor
    initial, final = board(season, "initial", "defences_initial"), board(season, "final", "defences")
    assert initial[name]["score"] < initial["undefended"]["score"]
    assert "below the floor" in initial[name]["reason"]
    assert (initial[name]["rank"], final[name]["rank"]) == (None, None)


def test_a17_the_careless_one_errs_on_a_third(season) -> None:
    """The defence that gives up clean pictures is right on what is left of them, as it was made to be."""
    record, _ = round_record.read_round(season / "rounds" / "initial" / "digits")
    answers, labels = record.answers("seven", 50)[Cell("seven")], record.samples.labels
    honest = record.answers("levels", 50)[Cell("levels")]
    assert 0.2 <= (answers != honest).mean() <= 0.45
    assert clean(season, "seven") == (answers == labels).mean()


def test_x4_the_final_reuses_the_initial_round(season) -> None:
    """X4: every attack and every cell of the initial round is copied into the final, and none of it runs again."""
    initial, _ = round_record.read_round(season / "rounds" / "initial" / "digits")
    final, _ = round_record.read_round(season / "rounds" / "final" / "digits")
    told = read(RoundFolder(season / "rounds" / "final" / "digits").ledger())
    copied = {job.id for job in final.round.planned_jobs if job.origin_round}
    assert {job.origin_round for job in final.round.planned_jobs} == {"initial", ""}
    assert copied == {job.id for job in initial.round.planned_jobs}
    assert [set(event.jobs) for event in told if isinstance(event, events.JobsReused)] == [copied]
    assert all(job.origin_round == "initial" for job in final.round.planned_jobs if job.stage is Stage.PERTURB)
    for stage in (Stage.CLASSIFY, Stage.REPLAY):
        new = {
            (c.defence, c.attack)
            for j in final.round.planned_jobs
            if j.stage is stage and not j.origin_round
            for c in j.cells
        }
        old = {(c.defence, c.attack) for j in initial.round.planned_jobs if j.stage is stage for c in j.cells}
        assert not new & old
        assert len(new) + len(old) == 16 * 15
    ends = [event.job for event in told if isinstance(event, events.JobFinished)]
    assert len(ends) == len(set(ends)) == len(final.round.planned_jobs)


def test_x4_playing_again_plays_nothing(season) -> None:
    """X4: the same command after the end appends nothing to the round's ledger or the contest's."""
    contest, final = ContestFolder(season), RoundFolder(season / "rounds" / "final" / "faint")
    before = len(read(contest.ledger())), len(read(final.ledger()))
    again = CliRunner().invoke(
        app, ["round", "run", str(season), "final", "--task", "faint", "--allow-unisolated", "--json"]
    )
    assert again.exit_code == 0, again.output
    assert (len(read(contest.ledger())), len(read(final.ledger()))) == before


def test_boards_are_shown_from_the_folder(season) -> None:
    """`sparring board` shows the final of each task, and the initial round of one when it is asked for."""
    done = CliRunner().invoke(app, ["board", str(season), "--json"])
    assert [(document["task"]["name"], document["round"]) for document in json.loads(done.stdout)] == [
        (task, "final") for task in TASKS
    ]
    done = CliRunner().invoke(app, ["board", str(season), "--round", "initial", "--task", "faint"])
    assert "faint, initial round" in done.stdout
    assert "corners" in done.stdout


def test_rules_changed_later_change_boards_and_not_play(season) -> None:
    """A rule that only judges is looked at without a trace: the floor off, the constant classifier would win (A17)."""
    file = season / "contest.yaml"
    text = file.read_text()
    before = len(read(ContestFolder(season).ledger()))
    file.write_text(text.replace("clean_floor: {baseline: undefended, points: 10}", "clean_floor: null"))
    try:
        done = CliRunner().invoke(app, ["rescore", str(season), "--task", "digits", "--json"])
    finally:
        file.write_text(text)
    assert done.exit_code == 0, done.output
    initial = next(one for one in json.loads(done.stdout) if one["round"] == "initial")
    changed = {row["submission"]: row for row in initial["rows"] if row["board"] == "defences_initial"}
    assert changed["record"]["before"]["rank"] is None
    assert changed["record"]["after"]["rank"] == 1
    assert "record" in initial["promoted"]["after"]["defences"]
    assert len(read(ContestFolder(season).ledger())) == before


def test_every_act_says_who_did_it(season) -> None:
    """The contest's ledger begins with its opening, and each act names who acted."""
    told = read(ContestFolder(season).ledger())
    assert isinstance(told[0], contest_events.ContestOpened)
    assert all(act.actor for act in told)
    counts = {
        kind: sum(isinstance(act, kind) for act in told)
        for kind in (contest_events.TeamAdded, contest_events.SubmissionReceived)
    }
    assert counts == {contest_events.TeamAdded: 24, contest_events.SubmissionReceived: len(folded(season).entries)}


def test_nobody_was_asked_what_was_forfeited(season) -> None:
    """A8, A14: over the whole final, exactly the forfeited candidates were not asked, and no other fault is hidden."""
    record, _ = round_record.read_round(season / "rounds" / "final" / "digits")
    for defence in ("levels", "goats", "undefended"):
        for cell, answers in record.answers(defence, 50).items():
            forfeits = np.zeros(50) if cell.attack is None else record.adversarial_examples(cell.attack).forfeits
            assert ((answers == NOT_ASKED) == (forfeits != Forfeit.NONE)).all()
            asked = int((forfeits == Forfeit.NONE).sum())
            unanswered = np.isin(answers, (FAULTED, NOT_PLAYED)).sum()
            assert unanswered == (asked if defence == "goats" else 0)
