"""The contest of examples/query, smaller: attacks that query two defences, from the file to the record (X6)."""

import re
import shutil
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
NETWORK = "../../images/defence_undefended"
LINEAR = """
from sparring_player import Defence, serve
# isort: split
from pathlib import Path
import numpy as np

class Linear(Defence):
    scores = True

    def load(self, task):
        with np.load(Path(__file__).with_name("model.npz")) as model:
            self.weights, self.biases = model["weights"], model["biases"]

    def classify(self, pixels):
        values = pixels.reshape(len(pixels), -1).astype(np.float32) @ self.weights.T + self.biases
        return values.argmax(axis=1), values.astype(np.float32)

serve(Linear())
"""
"""The linear model of examples/tournament/."""


@pytest.fixture(scope="module", params=["linear", pytest.param("network", marks=pytest.mark.soak)])
def contest(request, tmp_path_factory) -> Contest:
    """The example with fewer pictures and queries, and without replays.

    PyTorch starts for each attack, so `undefended` is a linear model that gives scores too. In the soak tests it is the
    example's network.
    """
    folder = tmp_path_factory.mktemp("queries")
    text = (EXAMPLES / "query" / "contest.yaml").read_text("utf-8")
    for old, new in (
        ("first: 20", f"first: {PICTURES}"),
        ("queries: 500", f"queries: {QUERIES}"),
        ("replay: {power: 0.9, cheat: 0.1}", "replay: {power: 0}"),
        (NETWORK, NETWORK if request.param == "network" else str(linear(folder / "undefended"))),
    ):
        assert old in text
        text = text.replace(old, new)
    text = re.sub(r"folder: ([^,}]*)", lambda found: f"folder: {(EXAMPLES / 'query' / found[1]).resolve()}", text)
    path = folder / "contest.yaml"
    path.write_text(text, "utf-8")
    return Contest(path)


def linear(folder: Path) -> Path:
    """Makes the folder of the linear model."""
    folder.mkdir()
    shutil.copy(EXAMPLES / "tournament" / "players" / "model.npz", folder)
    (folder / "player.py").write_text(LINEAR.strip() + "\n", "utf-8")
    manifest = "sparring: 1\nname: undefended\nside: defence\nimage: test/linear\ncommand: [python, player.py]\n"
    (folder / "submission.yaml").write_text(manifest, "utf-8")
    return folder


def play(contest: Contest, out: Path) -> RoundView:
    """Plays the contest and returns the record of its round."""
    options = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
    play_rounds.play_round(contest, out, options, lambda _: None)
    return round_record.read_round(out)[0]


@pytest.fixture(scope="module")
def played(contest, tmp_path_factory) -> RoundView:
    """A play of the contest."""
    return play(contest, tmp_path_factory.mktemp("out") / "round")


@pytest.fixture(scope="module")
def played_again(contest, tmp_path_factory) -> RoundView:
    """Another play, with another secret and the same seed, of the neighbours alone."""
    folder = tmp_path_factory.mktemp("again")
    text = re.sub(r"  - {folder: [^,}]*undefended}\n", "", contest.path.read_text("utf-8"))
    (folder / "contest.yaml").write_text(text.replace("baselines:\n\n", "rules: {clean_floor: null}\n"), "utf-8")
    return play(Contest(folder / "contest.yaml"), folder / "round")


def fooled(record: RoundView, contest: Contest, defence: str, attack: str | None) -> int:
    """Returns how many pictures of a cell the defence did not read right."""
    labels = contest.load_samples("digits").labels
    return int((record.answers(defence, PICTURES)[Cell(defence, attack)] != labels).sum())


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("defence", DEFENCES)
def test_an_attack_keeps_its_queries_and_its_budget(played, attack, defence) -> None:
    """No picture costs more than it may; every candidate is within the budget; nobody has a fault."""
    asked, examples = played.query_record(Cell(defence, attack)), played.cell_examples(Cell(defence, attack))
    assert asked.queries.min() >= 1
    assert asked.queries.max() <= QUERIES
    assert (examples.forfeits == Forfeit.NONE).all()
    assert not played.round.fault_counts(attack)
    assert not played.round.fault_counts(defence)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_fools_more_than_clean_pictures_do(played, contest, attack) -> None:
    """On the defence with scores. Whoever was misread within the budget while it was asked is misread in judgement."""
    assert fooled(played, contest, "undefended", attack) > fooled(played, contest, "undefended", None)
    for defence in DEFENCES:
        asked = played.query_record(Cell(defence, attack))
        answers = played.answers(defence, PICTURES)[Cell(defence, attack)]
        hit = asked.fooled_at > 0
        assert (answers[hit] != contest.load_samples("digits").labels[hit]).all()


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_second_play_makes_the_same_pictures(played, played_again, attack) -> None:
    """The same pictures after as many queries, and the same transcripts of them, whoever else plays.

    By labels: test_the_seed_decides of tests/images/test_query_attacks.py has those that go by scores do so.
    """
    cell, plays = Cell("neighbours", attack), (played, played_again)
    (first, asked), (again, asked_again) = ((one.cell_examples(cell), one.query_record(cell)) for one in plays)
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(asked.queries, asked_again.queries)
    assert np.array_equal(asked.fooled_at, asked_again.fooled_at)
    steps, steps_again = (one.query_steps(cell) for one in plays)
    assert [step.transcript for step in steps] == [step.transcript for step in steps_again]


def test_rays_needs_no_scores(played, contest) -> None:
    """The neighbours give labels only: there it fools more pictures than the attacks that go by scores."""
    by_attack = {attack: fooled(played, contest, "neighbours", attack) for attack in ATTACKS}
    assert by_attack["rays"] > max(by_attack["square"], by_attack["spsa"])
