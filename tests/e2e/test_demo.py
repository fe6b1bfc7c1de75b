"""The demo, as `make demo` runs it."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from orchestrator import resources
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain.outcomes import NOT_ASKED, Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.intake.contest_file import Contest

CONTEST = resources.resource_path("examples", "demo", "contest.yaml")
SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "results.schema.json"


@pytest.fixture(scope="module")
def played(readme_lines) -> tuple[dict, Path]:
    """The demo on the process backend, as the README's `make demo` played it: its results and its folder."""
    out = readme_lines.clone / "demo"
    return json.loads((out / "results.json").read_text()), out


def cells(results: dict, attack: str | None) -> dict[str, dict]:
    """Returns one row of the matrix by defence."""
    return {cell["defence"]: cell for cell in results["cells"] if cell["attack"] == attack}


@pytest.mark.xdist_group("demo")
def test_results_fit_their_schema(played) -> None:
    """results.json is what schemas/results.schema.json says."""
    jsonschema.validate(played[0], json.loads(SCHEMA.read_text()))


@pytest.mark.xdist_group("demo")
def test_every_meeting_is_played(played) -> None:
    """Each of nine attacks and the clean pictures meet each of six defences on all 200 pictures (rule A3)."""
    results, _ = played
    assert results["complete"]
    assert len(results["cells"]) == 10 * 6
    assert all(cell["total"] == 200 == cell["held"] + cell["fooled"] + cell["abstained"] for cell in results["cells"])
    ordinary = [s for s in results["submissions"] if not s["baseline"]]
    assert sorted(s["side"] for s in ordinary) == ["attack"] * 3 + ["defence"] * 3


@pytest.mark.xdist_group("demo")
def test_noop_changes_nothing(played) -> None:
    """An attack that returns its pictures has a delta of exactly 0 against everybody."""
    assert [cell["delta"] for cell in cells(played[0], "noop").values()] == [0.0] * 6


@pytest.mark.xdist_group("demo")
def test_adversarial_training_helps(played) -> None:
    """The FGSM-trained baseline loses less than the undefended one to every gradient attack."""
    for attack in ("fgsm", "bim", "pgd"):
        row = cells(played[0], attack)
        assert row["fgsm_trained"]["delta"] < row["undefended"]["delta"]


@pytest.mark.xdist_group("demo")
def test_carlini_wagner_is_penalised(played) -> None:
    """Every candidate of cw_l2 beyond 51/255 is a forfeit, is held, and no defence is asked about it (A8, A14)."""
    results, out = played
    record, _ = round_record.read_round(out)
    made = record.adversarial_examples("cw_l2")
    beyond = np.flatnonzero(made.distances > 51)

    assert len(beyond) > 50
    assert (made.forfeits[beyond] == Forfeit.BUDGET).all()
    assert (made.pixels[beyond] == 128).all()
    assert (made.forfeits == Forfeit.NONE).sum() == 200 - len(beyond)
    for defence, cell in cells(results, "cw_l2").items():
        answers = record.answers(defence, 200)[Cell(defence, "cw_l2")]
        assert (answers[beyond] == NOT_ASKED).all()
        assert cell["forfeits"] == len(beyond)
        assert cell["held"] >= len(beyond)


@pytest.mark.xdist_group("demo")
def test_baselines_are_shown_unranked(played) -> None:
    """Baselines are on every board with a reason instead of a rank; every other submission is ranked."""
    results, _ = played
    baselines = {s["id"] for s in results["submissions"] if s["baseline"]}
    assert len(results["boards"]) == 4
    for board in results["boards"]:
        for row in board["rows"]:
            assert (row["rank"] is None) == (row["submission"] in baselines)
            assert (row["reason"] == "baseline") == (row["submission"] in baselines)
            assert row["score"] is not None


@pytest.mark.xdist_group("demo")
def test_honest_players_are_not_accused(played) -> None:
    """The replay check finds nothing against the demo's honest defences, and nobody faults."""
    results, _ = played
    assert results["findings"] == []
    assert {s["status"] for s in results["submissions"]} == {"played"}
    assert sum(job["stage"] == "replay" for job in results["jobs"]) == 6


@pytest.mark.xdist_group("demo")
def test_report_is_one_offline_page_with_pictures(played) -> None:
    """The report shows boards, matrix and pictures, says that isolation was weaker, and loads nothing from anywhere."""
    page = (played[1] / "report" / "index.html").read_text()
    assert page.count("data:image/png;base64,") >= 9 * 2
    assert "Isolation per round" in page
    assert "Regression to the Mean" in page
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("demo")
def test_docker_gives_the_same_numbers(played, tmp_path, demo_images) -> None:
    """The same round in containers gives the same cells, boards and forfeits, number for number.

    Without replays, each of which begins with a copy of an image: they change no number.
    """
    text, found = CONTEST.read_text("utf-8"), "replay: {power: 0.9, cheat: 0.2}"
    assert found in text
    text = text.replace(found, "replay: {power: 0}")
    text = re.sub(r"folder: ([^,}]*)", lambda folder: f"folder: {(CONTEST.parent / folder[1]).resolve()}", text)
    (tmp_path / "contest.yaml").write_text(text, "utf-8")
    options = play_rounds.RunOptions(backend="docker")
    results = play_rounds.play_round(Contest(tmp_path / "contest.yaml"), tmp_path / "docker", options, lambda _: None)
    contained = results.results.model_dump(mode="json")
    ours, _ = played
    assert contained["cells"] == ours["cells"]
    assert contained["boards"] == ours["boards"]
    for key in ("forfeits", "violations", "largest"):
        assert [s[key] for s in contained["submissions"]] == [s[key] for s in ours["submissions"]]
    assert all(s["image"].startswith("sha256:") for s in contained["submissions"])
