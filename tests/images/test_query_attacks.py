"""The attacks of examples/query against a defence in this process: budgets, fallbacks, and what is delivered."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from orchestrator.domain.submissions import Side
from orchestrator.errors import PlayerReported
from orchestrator.intake.scaffold import Framework
from orchestrator.protocol.messages import QueriesHeader, Refusal, Role, Want
from orchestrator.protocol.session import AttackQuery, QueryReply

from .conftest import EPSILON, ROOT

PLAYERS = ROOT / "examples" / "query" / "players"
ATTACKS = {"square": "scores", "spsa": "scores", "rays": "decision", "hopskipjump": "decision"}
"""Each with what it asks for where it may."""
BOTH = {Want.DECISION: 1, Want.SCORES: 1}
EACH = pytest.mark.parametrize("name", ATTACKS)


class Means:
    """A defence that answers by the nearest mean picture, and what each position was asked."""

    def __init__(self, player, samples, queries: QueriesHeader, *, scores: bool = True) -> None:
        self.player, self.queries, self.scores = player, queries, scores
        self.means = np.stack([samples.pixels[samples.labels == label].mean(axis=0) for label in range(10)])
        self.asked: dict[int, list[np.ndarray]] = {}
        self.wants: list[Want] = []
        self.limit = queries.per_picture

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Puts a question to the attack, answers its queries, and returns its candidates."""
        self.asked = {place: [] for place in range(len(pixels))}
        made, session = np.zeros_like(pixels), self.player.session
        question = session.ask_perturb(pixels, None if labels is None else labels.tolist())
        for replies in self.player.each(question):
            for reply in replies:
                if isinstance(reply, AttackQuery):
                    self.player.process.stdin.write(session.answer_query(self.answer(reply)))
                    self.player.process.stdin.flush()
                else:
                    made[list(reply.index)] = reply.pixels
        return made

    def answer(self, query: AttackQuery) -> QueryReply:
        """Returns the answer to a query, which is refused where a position has less than it."""
        self.wants.append(query.want)
        counts = {place: query.positions.count(place) for place in query.positions}
        over = any(len(self.asked[place]) + count > self.limit for place, count in counts.items())
        if not over:
            for place, picture in zip(query.positions, query.pixels, strict=True):
                self.asked[place].append(picture)
        left = [self.limit - len(self.asked[place]) for place in query.positions]
        if over:
            return QueryReply(left, refused=Refusal.BUDGET)
        scores = self.read(query.pixels)
        if query.want is Want.DECISION:
            return QueryReply(left, labels=scores.argmax(axis=1).tolist())
        return QueryReply(left, values=scores if self.scores else np.full_like(scores, np.nan))

    def read(self, pixels: np.ndarray) -> np.ndarray:
        """Returns scores, float32 [n, 10]."""
        distances = ((self.means[None] - pixels[:, None].astype(float)) ** 2).sum(axis=(2, 3, 4))
        return (-distances / 1000).astype(np.float32)

    def misread(self, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns which pictures it misreads, bool [n]."""
        return self.read(pixels).argmax(axis=1) != labels


@pytest.fixture
def against(start, train_digits):
    """Starts an attack, with `hello` answered, and returns the defence that it plays against."""

    def begin(name: str | Path, *, per_picture: int = 200, prices=BOTH, scores: bool = True, **options) -> Means:
        queries = QueriesHeader(per_picture=per_picture, batch=64, prices=prices)
        folder = name if isinstance(name, Path) else PLAYERS / f"attack_{name}"
        player = start([sys.executable, "player.py"], folder, Role.ATTACK, queries=queries, **options)
        player.hello()
        return Means(player, train_digits, queries, scores=scores)

    return begin


@pytest.fixture(scope="session")
def eight(test_digits):
    """The first eight test digits."""
    return test_digits.first(8)


@pytest.mark.slow
@EACH
def test_what_was_misread_is_delivered_at_once(name, against, eight) -> None:
    """The latest picture asked about is the candidate, within the budget; no picture costs more than it may."""
    defence = against(name)
    made = defence.perturb(eight.pixels, eight.labels)
    fooled = defence.misread(made, eight.labels)
    assert fooled.sum() >= (2 if name == "hopskipjump" else 6)
    assert fooled.sum() > defence.misread(eight.pixels, eight.labels).sum()
    assert np.abs(made.astype(int) - eight.pixels).max() <= EPSILON
    for place in np.flatnonzero(fooled):
        at = [bool((made[place] == asked).all()) for asked in defence.asked[place]]
        assert any(at)
        later = defence.asked[place][at.index(True) + 1 :]
        assert len(later) < 8  # of the same query, at most
    assert max(map(len, defence.asked.values())) <= 200
    assert {str(want) for want in defence.wants} == {ATTACKS[name]}


@pytest.mark.slow
@EACH
def test_hidden_labels_change_nothing(name, against, eight) -> None:
    """The defence's answers to the clean pictures stand in: where it is right, the candidates are the same."""
    told, untold = against(name), against(name)
    right = ~told.misread(eight.pixels, eight.labels)
    pixels, labels = eight.pixels[right][:3], eight.labels[right][:3]
    assert np.array_equal(told.perturb(pixels, labels), untold.perturb(pixels, None))


@pytest.mark.slow
@EACH
def test_the_seed_decides(name, against, eight) -> None:
    """Another process with the same seed makes the same pictures; but for RayS, another seed makes others."""
    first, again, other = (against(name, seed=seed).perturb(eight.pixels[:3], eight.labels[:3]) for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (name == "rays")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["square", "spsa"])
@pytest.mark.parametrize("how", ["the contest gives none", "the defence gives none"])
def test_without_scores_they_ask_for_decisions(name, how, against, eight) -> None:
    """They go on by labels, and still fool some."""
    silent = how == "the defence gives none"
    prices = BOTH if silent else {Want.DECISION: 1}
    defence = against(name, prices=prices, scores=not silent)
    made = defence.perturb(eight.pixels, eight.labels)
    assert defence.misread(made, eight.labels).any()
    assert [str(want) for want in defence.wants].count("scores") == int(silent)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("per_picture", [1, 2, 11])
def test_small_budgets_are_kept(name, per_picture, against, eight) -> None:
    """It delivers every picture, however few queries there are."""
    defence = against(name, per_picture=per_picture)
    made = defence.perturb(eight.pixels, eight.labels)
    assert max(map(len, defence.asked.values())) <= per_picture
    assert np.abs(made.astype(int) - eight.pixels).max() <= EPSILON


@EACH
def test_a_refusal_is_no_end(name, against, eight) -> None:
    """Where the orchestrator counts otherwise than the attack, it delivers what it has."""
    defence = against(name)
    defence.limit = 5
    made = defence.perturb(eight.pixels, eight.labels)
    assert np.abs(made.astype(int) - eight.pixels).max() <= EPSILON


@pytest.mark.slow
def test_hopskipjump_follows_the_norm_of_the_budget(against, eight) -> None:
    """With an L2 budget its candidates keep it, and most are misread."""
    defence = against("hopskipjump", norm="l2", epsilon=250)
    made = defence.perturb(eight.pixels, eight.labels)
    assert (((made.astype(int) - eight.pixels) ** 2).sum(axis=(1, 2, 3)) <= 250**2).all()
    assert defence.misread(made, eight.labels).sum() >= 4


@pytest.mark.parametrize("name", ["square", "spsa", "rays"])
def test_the_others_refuse_another_norm(name, against) -> None:
    """They say so before the first question."""
    with pytest.raises(PlayerReported, match="for the Linf norm, not for l2"):
        against(name, norm="l2")


def test_what_the_document_shows_works(against, eight, tmp_path) -> None:
    """The player of "Querying the defence" keeps its queries and the budget, and fools some."""
    section = (ROOT / "docs" / "submit-an-attack.md").read_text("utf-8").split("## Querying the defence\n")[1]
    blocks = re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    (source,) = [block for block in blocks if "random_search" in block]
    (tmp_path / "player.py").write_text(source, "utf-8")
    fools_some(against(tmp_path), eight)


@pytest.mark.slow
@pytest.mark.parametrize("framework", [Framework.FOOLBOX, Framework.ART])
def test_templates_query_with_the_real_libraries(framework, against, eight, template, require, tmp_path) -> None:
    """The attack of the library keeps its queries and the budget, and fools some."""
    found = importlib.util.find_spec(framework)
    if found is None:
        require(framework, "pip install adversarial-robustness-toolbox==1.20.1")
    folder = tmp_path / "mine"
    shutil.copytree(template(Side.ATTACK, framework), folder)
    player = folder / "player.py"
    library = str(Path(found.origin).parents[1])
    player.write_text(f"import sys\nsys.path.append({library!r})\n{player.read_text('utf-8')}", "utf-8")
    fools_some(against(folder), eight)


def fools_some(defence, eight) -> None:
    """Asserts that an attack fools some of four pictures, within the budget and its queries."""
    pixels, labels = eight.pixels[:4], eight.labels[:4]
    made = defence.perturb(pixels, labels)
    assert defence.misread(made, labels).sum() > defence.misread(pixels, labels).sum()
    assert np.abs(made.astype(int) - pixels).max() <= EPSILON
    assert max(map(len, defence.asked.values())) <= 200
