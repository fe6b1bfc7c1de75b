"""Real networks of PyTorch near their boundary, in questions of eight, with threads: nobody is accused (A9, A10)."""

import hashlib
import json
import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.intake.contest_file import Contest

HELPER = Path(__file__).parents[2] / "images" / "_base" / "python" / "sparring_player.py"

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(find_spec("torch") is None, reason="could not find 'torch'"),  # importing it takes seconds
]

RUNS = 20
PICTURES = 64
NETWORK = """
import torch

torch.manual_seed(3)
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(1024, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4),
).eval()
"""
PLAYER = """
from sparring_player import Defence, serve

import os
import random
import sys

from network import network, torch

KIND = sys.argv[1]
torch.set_num_threads(2 if "threads" in KIND else 1)


class Mine(Defence):
    scores = "scores" in KIND

    def load(self, task):
        self.task = task

    def classify(self, pixels):
        if "dies" in KIND and random.SystemRandom().random() < 0.01:
            os._exit(1)
        with torch.no_grad():
            found = network(torch.from_numpy(pixels).float() / 255)
        if "chance" in KIND:
            moved = [torch.from_numpy(self.task.rng(picture).normal(0, 1e-3, 4)) for picture in pixels]
            found = found + torch.stack(moved).float()
        labels = found.argmax(dim=1)
        return (labels, found) if self.scores else labels


serve(Mine())
"""
ATTACK = """
from sparring_player import Attack, serve

serve(type("Noop", (Attack,), {"perturb": lambda self, pixels, labels: pixels})())
"""
DEFENCES = ("threads-mute", "threads-scores", "single-mute", "dies-mute", "chance-mute")


def boundary(folder: Path) -> np.ndarray:
    """Returns pictures u8 [n, 8, 8] that were halved towards another class until rounding ends it."""
    (folder / "network.py").write_text(NETWORK)
    scope = runpy.run_path(str(folder / "network.py"))  # the same network as the players'
    torch, network = scope["torch"], scope["network"]
    drawn = np.random.default_rng(5).integers(0, 256, (2, PICTURES, 1, 8, 8)).astype(np.float64)
    inside, outside = drawn

    def labels(pixels: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.from_numpy(pixels).float() / 255).argmax(dim=1).numpy()

    first = labels(inside)
    for _ in range(40):
        middle = (inside + outside) / 2
        same = labels(middle) == first
        inside[same], outside[~same] = middle[same], middle[~same]
    return np.rint(inside).astype(np.uint8)[:, 0]


def entry(folder: Path, name: str, side: str, files: dict[str, str], words: list[str]) -> dict[str, str]:
    """Writes a submission and returns its entry in the contest file."""
    folder.mkdir(parents=True)
    for file, text in (files | {"sparring_player.py": HELPER.read_text("utf-8")}).items():
        (folder / file).write_text(text)
    manifest = {"sparring": 1, "name": name, "side": side, "command": ["python", "player.py", *words]}
    (folder / "submission.yaml").write_text(json.dumps(manifest))
    return {"folder": str(folder), "team": f"team {name}"}


@pytest.mark.parametrize("batch", [8, 1])
@pytest.mark.soak
def test_networks_near_their_boundary_are_not_accused(tmp_path, batch) -> None:
    """Each plays clean pictures that all lie at its boundary: 20 rounds."""
    np.savez(tmp_path / "boundary.npz", images=boundary(tmp_path), labels=np.arange(PICTURES) % 4)
    entries = [entry(tmp_path / "noop", "noop", "attack", {"player.py": ATTACK}, [])]
    entries += [
        entry(tmp_path / name, name, "defence", {"player.py": PLAYER, "network.py": NETWORK}, [name])
        for name in DEFENCES
    ]
    body = {
        "sparring": 1,
        "contest": "fair",
        "title": "Near the boundary",
        "format": "tournament",
        "task": {
            "name": "boundary",
            "dataset": {"kind": "npz", "path": "boundary.npz"},
            "budget": {"norm": "linf", "epsilon": 8},
        },
        "limits": {"classify_batch": batch},
        "rules": {"clean_floor": None},
        "submissions": entries,
    }
    (tmp_path / "contest.yaml").write_text(json.dumps(body))
    for run in range(RUNS):
        out = tmp_path / f"out{run}"
        out.mkdir()
        (out / "secret").write_bytes(hashlib.sha256(f"fair {run}".encode()).digest())
        options = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
        results = play_rounds.play_round(Contest(tmp_path / "contest.yaml"), out, options, lambda _: None).results
        assert results.complete
        assert not results.findings, (run, results.findings)
