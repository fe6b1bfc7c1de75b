"""Rules that measure with who did not play: refused before they are on record, and put right where they are."""

import json

import pytest

from orchestrator.application.contests import rescoring
from orchestrator.cli import results_output
from orchestrator.domain import contest_events
from orchestrator.errors import UsageError

NOBODY = {"classifier": "nobody", "weights": {"fgsm": 1}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"initial": NOBODY}, "rules.initial.classifier: the initial round is measured with nobody"),
        ({"initial": {"classifier": "measure", "weights": {"bim": 1}}}, "rules.initial.weights: .* measured with bim"),
        ({"clean_floor": {"baseline": "nobody", "points": 10}}, "rules.clean_floor: .* baseline 'nobody'"),
    ],
    ids=["classifier", "weights", "floor"],
)
def test_a_measure_that_did_not_play_is_refused(played, rules, named) -> None:
    """A mistyped baseline drops no board and promotes nobody wrongly: neither looked at nor settled (A11, A12, A17)."""
    played.write(**rules)
    before = played.entries()
    with played.desk() as desk:
        with pytest.raises(UsageError, match=f"the initial round of quarters cannot be judged so: {named}"):
            rescoring.rescore(desk)
        for apply in (True, False):
            with pytest.raises(UsageError, match=named):
                rescoring.record_decision(desk, "a slip", apply=apply)
    assert played.entries() == before


@pytest.mark.slow
def test_a_broken_rule_on_record_can_be_put_right(played) -> None:
    """Where such rules are on record, the board that is missing comes back, each row from nothing."""
    with played.desk() as desk:
        rules = desk.contest.format.rules.model_dump(mode="json") | {"initial": NOBODY}
        desk.append_event(contest_events.RulesChanged(actor="desk", rules=rules, reason="a slip"))
    with played.desk() as desk:
        (found,) = rescoring.rescore(desk)
        assert [board.name for board in found.before.boards] == ["defences_initial"]
        document = results_output.rescored_document(found)
        rescoring.record_decision(desk, "put right", apply=True)
    changed = next(row for row in document["rows"] if row["submission"] == "attack_honest")
    assert (changed["board"], changed["before"]["rank"], changed["after"]["rank"]) == ("attacks_initial", None, 1)
    assert document["promoted"]["before"]["attacks"] == []
    assert document["promoted"]["after"]["attacks"] == ["attack_honest"]
    assert played.promote() == (("attack_honest",), ("defence_honest",))


@pytest.mark.slow
def test_who_would_go_on_is_told_of_the_first_round_alone(played, capsys) -> None:
    """Nobody goes on from the final: of it only rows are told."""
    played.promote()
    played.play("final")
    played.write(clean_floor={"baseline": "measure", "points": 0}, finalists=1)
    with played.desk() as desk:
        initial, final = rescoring.rescore(desk, "quarters")
    assert (initial.round, final.round) == ("initial", "final")
    assert initial.outcome_after is not None
    assert (final.outcome_before, final.outcome_after) == (None, None)
    assert results_output.rescored_document(final)["promoted"] is None
    results_output.print_rescored(final)
    assert "would go on" not in capsys.readouterr().out


@pytest.mark.slow
def test_who_would_go_on_is_shown_where_it_changes(cup, capsys) -> None:
    """Under a floor that a finalist misses, both promotions are shown (A12, A17)."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_constant"))
    cup.play("initial")
    cup.write(clean_floor={"baseline": "measure", "points": 10})
    with cup.desk() as desk:
        (found,) = rescoring.rescore(desk)
    results_output.print_rescored(found)
    shown = capsys.readouterr().out
    assert "would go on before: attacks attack_honest; defences defence_constant" in shown
    assert "would go on after: attacks attack_honest; defences none\n" in shown


def test_a_seasons_file_is_checked_for_each_of_its_rounds(cup) -> None:
    """`contest check` finds in an open contest what would keep its initial round from being played."""
    from typer.testing import CliRunner  # noqa: PLC0415  only this test types a command

    from orchestrator.cli.app import app  # noqa: PLC0415

    def check() -> tuple[int, list[str]]:
        done = CliRunner().invoke(app, ["contest", "check", str(cup.folder.file), "--json"])
        document = json.loads(done.stdout)
        return done.exit_code, [problem["what"] for problem in document.get("error", {}).get("problems", [])]

    assert check() == (0, [])
    cup.write(initial=NOBODY, clean_floor={"baseline": "nobody", "points": 10})
    assert check() == (
        1,
        [
            "the floor is measured on the baseline 'nobody', which does not take part",
            "the initial round is measured with nobody, not among the baselines",
        ],
    )
    (cup.folder.path / "contest.sqlite").rename(cup.path / "elsewhere")  # a round by itself has the boards it can have
    cup.write(initial=NOBODY)
    assert check() == (0, [])
