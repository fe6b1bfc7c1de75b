"""The templates play whole rounds: all of them as processes, and in containers what no package index is needed for."""

import json
from pathlib import Path

import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.domain.submissions import Side
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.scaffold import Framework

pytestmark = pytest.mark.slow

SPOKEN = [Framework.PYTORCH, Framework.NUMPY, Framework.BARE, Framework.C, Framework.JAVASCRIPT]
EVERY = [(side, framework) for side in Side for framework in SPOKEN]
IN_CONTAINERS = [each for each in EVERY if each[1] in {Framework.NUMPY, Framework.BARE, Framework.C}]


def contest(folder: Path, entries: list[dict], **limits) -> Path:
    """Writes a contest file on 16 digits between these entries; JSON is YAML."""
    body = {
        "sparring": 1,
        "contest": "templates",
        "title": "Templates",
        "format": "tournament",
        "isolation": "round",
        "task": {
            "name": "digits",
            "dataset": {"kind": "digits", "first": 16},
            "budget": {"norm": "linf", "epsilon": 51},
        },
        "limits": {"memory": "1GiB", "perturb_batch": 8, "ready_seconds": 60} | limits,
        "replay": {"power": 0.9, "cheat": 0.3},
        "rules": {"clean_floor": None},
        "submissions": entries,
    }
    path = folder / "contest.yaml"
    path.write_text(json.dumps(body))
    return path


def no_faults(path: Path, backend: str) -> None:
    """Plays a round and asserts that every submission's every answer counted."""
    options = play_rounds.RunOptions(backend=backend, slots=2, allow_unisolated=True)
    results = play_rounds.play_round(Contest(path), path.parent / "out", options, lambda _: None).results
    assert results.submissions
    assert {each.id: each.status for each in results.submissions} == {each.id: "played" for each in results.submissions}
    assert [cell for cell in results.cells if cell.faults or cell.forfeits] == []
    assert not any(each.findings or each.faults for each in results.submissions)


def test_a_round_between_all_templates(template, tmp_path):
    """On the process backend all ten play a round against each other without a single fault."""
    entries = [{"folder": str(template(side, framework)), "team": f"{side} {framework}"} for side, framework in EVERY]
    no_faults(contest(tmp_path, entries), "process")


@pytest.mark.docker
def test_a_round_in_containers(template, build, tmp_path):
    """On the docker backend the players that stand on nothing or on the base image play a round without a fault."""
    entries = []
    for side, framework in IN_CONTAINERS:
        name = f"{side}-{framework}"
        tag = build(template(side, framework), f"sparring-test/template:{name}")
        entries.append({"image": tag, "name": name, "side": side, "team": name})
    no_faults(contest(tmp_path, entries), "docker")
