"""The package `sparring`: what other people's programs import."""

import ast
import gc
import inspect
import pathlib
import shutil
import typing

import numpy as np
import pytest

import orchestrator
import sparring
import sparring.plugins
import sparring.testing
from orchestrator import plugins, resources
from orchestrator.errors import SubmissionFault, UsageError
from orchestrator.intake import scaffold
from orchestrator.intake.scaffold import ScaffoldRequest

ATTACK = """
from sparring_player import Attack, serve
class Mine(Attack):
    def load(self, task):
        self.task = task
    def perturb(self, pixels, labels):
        {body}
serve(Mine())
"""
CONTEST = """
sparring: 1
contest: small
title: Small
format: tournament
task:
  name: digits
  dataset: {kind: digits, first: 10}
  budget: {norm: linf, epsilon: 51}
rules: {clean_floor: null}
baselines:
  - {builtin: attack_noise}
submissions:
  - {folder: mine, team: Mine}
"""


@pytest.fixture
def submission(tmp_path):
    """Returns a function that makes a submission's folder from a template, with another player if one is given."""

    def make(side: str, player: str = "", name: str = ""):
        folder = tmp_path / (name or side)
        scaffold.create_submission(ScaffoldRequest(side, "mine"), folder)
        if player:
            (folder / "player.py").write_text(player)
        return folder

    return make


def test_a_template_passes_the_gate(submission) -> None:
    """`perturb` without pictures asks about the contest's, and gives what the gate says of each."""
    with sparring.testing.open_player(submission("attack")) as player:
        made = player.perturb()
        assert gc.isenabled()  # which the helper stops where it is a process's own
    assert len(made.pixels) == 50
    assert not made.forfeits.any()
    assert made.distances.max() == 51


def test_a_defence_answers_with_labels_and_scores(submission) -> None:
    """`classify` takes pictures, and gives a label and scores for each."""
    with sparring.testing.open_player(submission("defence")) as player:
        answers = [player.classify(player.samples.pixels[number : number + 1]) for number in range(20)]
        truth = player.samples.labels[:20]
    assert np.mean([each.labels[0] for each in answers] == truth) > 0.8
    assert answers[0].scores.shape == (1, 10)


def test_what_leaves_the_budget_is_forfeit(submission) -> None:
    """The gate judges what an attack returns: a candidate beyond the budget has a forfeit and a distance."""
    body = "return 255 - pixels"
    with sparring.testing.open_player(submission("attack", ATTACK.format(body=body))) as player:
        made = player.perturb(player.samples.pixels[:2], [0, 1])
    assert made.violations.all()
    assert made.distances.min() > 51


def test_a_wrong_reply_and_an_error_are_raised_as_they_are(submission) -> None:
    """What the helper objects to, and what the player's own code raises, reach the test."""
    with (
        sparring.testing.open_player(submission("attack", ATTACK.format(body="return pixels / 255"))) as player,
        pytest.raises(Exception, match="pixels must be uint8"),
    ):
        player.perturb()
    with (
        sparring.testing.open_player(submission("attack", ATTACK.format(body="return 1 // 0"), "failing")) as player,
        pytest.raises(ZeroDivisionError),
    ):
        player.perturb()


@pytest.mark.slow
def test_a_late_answer_is_a_deadline(submission, tmp_path) -> None:
    """The contest's time limit applies: an attack that takes longer raises the fault that a round would have."""
    (tmp_path / "contest.yaml").write_text(CONTEST + "limits: {perturb_seconds: 0.2, perturb_batch: 10}\n")
    body = "import time; time.sleep(2); return pixels"
    submission("attack", ATTACK.format(body=body), "mine")
    with (
        sparring.testing.open_player(tmp_path / "mine", tmp_path / "contest.yaml") as player,
        pytest.raises(SubmissionFault, match="deadline"),
    ):
        player.perturb()
    with sparring.testing.open_player(tmp_path / "mine", tmp_path / "contest.yaml", limits=False) as player:
        assert not player.perturb().forfeits.any()


def test_only_players_with_the_helper_run_in_the_process(submission, tmp_path) -> None:
    """Another program is refused with the reason."""
    folder = submission("attack", "print('hello')")
    with pytest.raises(UsageError, match="serve` 0 times"), sparring.testing.open_player(folder):
        pass
    manifest = folder / "submission.yaml"
    manifest.write_text(manifest.read_text().replace("[python, player.py]", "[./player]"))
    with pytest.raises(UsageError, match="is no program in Python"), sparring.testing.open_player(folder):
        pass


@pytest.mark.slow
def test_a_round_is_played_and_read_again(submission, tmp_path, capsys) -> None:
    """`play_round` returns what `load` reads from the folder, from its results.json, and from a bundle's layout.

    It prints nothing: what is logged of a round is for whoever sets structlog up.
    """
    submission("defence", name="mine")
    (tmp_path / "contest.yaml").write_text(CONTEST)
    seen = []
    played = sparring.play_round(tmp_path / "contest.yaml", tmp_path / "out", allow_unisolated=True, watch=seen.append)
    assert seen
    assert capsys.readouterr() == ("", "")
    (tmp_path / "bundle" / "rounds" / "final").mkdir(parents=True)
    shutil.copytree(tmp_path / "out", tmp_path / "bundle" / "rounds" / "final" / "digits")
    for place in ("out", "out/results.json", "bundle"):
        assert sparring.load(tmp_path / place) == played
    assert played.cells["attack"] == [None, "noise"]
    assert played.submissions["submission"] == ["noise", "mine"]
    for table in (played.cells, played.boards, played.submissions):
        assert len({len(column) for column in table.values()}) == 1


def test_what_has_no_results_is_refused(tmp_path) -> None:
    """`load` says what to give where there is nothing, and where it is something else."""
    with pytest.raises(UsageError, match="there are no results"):
        sparring.load(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        sparring.load(tmp_path / "none.json")
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UsageError, match="no results of this version"):
        sparring.load(tmp_path)


def named_types(hint: object) -> set[type]:
    """Returns our classes that a type names."""
    inside = {each for part in typing.get_args(hint) for each in named_types(part)}
    return inside | ({hint} if isinstance(hint, type) and hint.__module__.startswith("orchestrator") else set())


@pytest.mark.parametrize("contract", [sparring.plugins.Backend, sparring.plugins.Sandbox, sparring.plugins.ImageStore])
def test_a_sandbox_needs_one_import(contract) -> None:
    """What the methods of a sandbox take and return is in `sparring.plugins`."""
    methods = [value for value in vars(contract).values() if inspect.isfunction(value) and value.__doc__]
    named = {
        each for method in methods for hint in typing.get_type_hints(method).values() for each in named_types(hint)
    }
    assert len(methods) >= 3
    assert named <= {getattr(sparring.plugins, name) for name in sparring.plugins.__all__}


def test_a_format_needs_one_import() -> None:
    """The contest format in a distribution of its own imports nothing of ours but `sparring.plugins`."""
    files = sorted((pathlib.Path(__file__).parent / "formats" / "echo" / "sparring_echo").rglob("*.py"))
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in imported if name.partition(".")[0] in {"orchestrator", "sparring"}} == {"sparring.plugins"}


def test_the_api_is_what_it_says() -> None:
    """Every name in `__all__` is there, the version is the software's, and each kind of plug-in has its group."""
    for module in (sparring, sparring.testing, sparring.plugins):
        assert all(hasattr(module, name) for name in module.__all__)
    page = resources.resource_path("docs", "api", "sparring.md").read_text("utf-8")
    assert [name for name in sparring.plugins.__all__ if f"`{name}`" not in page] == []
    assert sparring.__version__ == orchestrator.__version__
    assert all(f"sparring.{kind}" in sparring.plugins.__doc__ for kind in plugins.PACKAGES)
    assert resources.resource_path("images").is_dir()
