"""The contest of examples/query, smaller: attacks that query two defences, from the file to the record (X6)."""

import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain.outcomes import Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.read_model import RoundView

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("query-attacks")]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ATTACKS = ("square", "spsa", "rays", "hopskipjump")
DEFENCES = ("undefended", "neighbours")
PICTURES, QUERIES = 8, 150


@pytest.fixture(scope="module")
def contest(tmp_path_factory) -> Contest:
    """The example with fewer pictures and queries, and without replays."""
    text = (EXAMPLES / "query" / "contest.yaml").read_text("utf-8")
    for old, new in (
        ("first: 20", f"first: {PICTURES}"),
        ("queries: 500", f"queries: {QUERIES}"),
        ("replay: {power: 0.9, cheat: 0.1}", "replay: {power: 0}"),
    ):
        assert old in text
        text = text.replace(old, new)
    text = re.sub(r"folder: ([^,}]*)", lambda found: f"folder: {(EXAMPLES / 'query' / found[1]).resolve()}", text)
    path = tmp_path_factory.mktemp("queries") / "contest.yaml"
    path.write_text(text, "utf-8")
    return Contest(path)


def play(contest: Contest, out: Path) -> RoundView:
    """Plays the contest and returns the record of its round."""
    options = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
    play_rounds.play_round(contest, out, options, lambda _: None)
    return round_record.read_round(out)[0]


@pytest.fixture(scope="module")
def played(contest, tmp_path_factory) -> list[RoundView]:
    """Two plays of the contest. Each has a secret of its own; the contest's seed is the same."""
    return [play(contest, tmp_path_factory.mktemp("out") / "round") for _ in range(2)]


def fooled(record: RoundView, contest: Contest, defence: str, attack: str | None) -> int:
    """Returns how many pictures of a cell the defence did not read right."""
    labels = contest.load_samples("digits").labels
    return int((record.answers(defence, PICTURES)[Cell(defence, attack)] != labels).sum())


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("defence", DEFENCES)
def test_an_attack_keeps_its_queries_and_its_budget(played, attack, defence) -> None:
    """No picture costs more than it may; every candidate is within the budget; nobody has a fault."""
    record = played[0]
    asked, examples = record.query_record(Cell(defence, attack)), record.cell_examples(Cell(defence, attack))
    assert asked.queries.min() >= 1
    assert asked.queries.max() <= QUERIES
    assert (examples.forfeits == Forfeit.NONE).all()
    assert not record.round.fault_counts(attack)
    assert not record.round.fault_counts(defence)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_fools_more_than_clean_pictures_do(played, contest, attack) -> None:
    """On the undefended network. Whoever was misread within the budget while it was asked is misread in judgement."""
    record = played[0]
    assert fooled(record, contest, "undefended", attack) > fooled(record, contest, "undefended", None)
    for defence in DEFENCES:
        asked = record.query_record(Cell(defence, attack))
        answers = record.answers(defence, PICTURES)[Cell(defence, attack)]
        hit = asked.fooled_at > 0
        assert (answers[hit] != contest.load_samples("digits").labels[hit]).all()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("defence", DEFENCES)
def test_a_second_play_makes_the_same_pictures(played, attack, defence) -> None:
    """The same pictures after as many queries, and the same transcripts of them."""
    cell = Cell(defence, attack)
    (first, asked), (again, asked_again) = ((one.cell_examples(cell), one.query_record(cell)) for one in played)
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(asked.queries, asked_again.queries)
    assert np.array_equal(asked.fooled_at, asked_again.fooled_at)
    steps, steps_again = (one.query_steps(cell) for one in played)
    assert [step.transcript for step in steps] == [step.transcript for step in steps_again]


def test_rays_needs_no_scores(played, contest) -> None:
    """The neighbours give labels only: there it fools more pictures than the attacks that go by scores."""
    by_attack = {attack: fooled(played[0], contest, "neighbours", attack) for attack in ATTACKS}
    assert by_attack["rays"] > max(by_attack["square"], by_attack["spsa"])
