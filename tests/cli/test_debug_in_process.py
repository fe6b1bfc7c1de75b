"""`sparring submission debug --in-process`: a debugger in the player's own code."""

import subprocess
import sys

import pytest

from orchestrator.domain.submissions import Side
from orchestrator.intake import scaffold
from orchestrator.intake.scaffold import ScaffoldRequest


def debug(folder, typed: str = "") -> subprocess.CompletedProcess:
    """Runs the command with something typed."""
    command = [sys.executable, "-m", "orchestrator", "submission", "debug", str(folder), "--in-process", "--batch", "3"]
    return subprocess.run(command, input=typed, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
def test_a_breakpoint_stops_in_the_players_own_file(tmp_path) -> None:
    """`breakpoint()` in `perturb` opens the debugger there, and afterwards the gate's verdict is shown."""
    scaffold.create_submission(ScaffoldRequest(Side.ATTACK, "mine"), tmp_path / "mine")
    player = tmp_path / "mine" / "player.py"
    player.write_text(player.read_text().replace("rng = self.task", "breakpoint()\n        rng = self.task"))
    done = debug(tmp_path / "mine", "p pixels.shape\nc\n")
    assert done.returncode == 0, done.stderr
    assert f"{player}(" in done.stdout
    assert "(3, 1, 8, 8)" in done.stdout
    assert done.stdout.count("admissible, distance 51.00/255") == 3


@pytest.mark.slow
def test_an_error_of_the_player_is_shown_with_its_place(tmp_path) -> None:
    """What the player's code raises ends the command with its traceback and exit code 1."""
    scaffold.create_submission(ScaffoldRequest(Side.DEFENCE, "mine"), tmp_path / "mine")
    player = tmp_path / "mine" / "player.py"
    player.write_text(
        player.read_text().replace("    def classify(self, pixels):", "    def classify(self, pixels):\n        1 / 0")
    )
    done = debug(tmp_path / "mine")
    assert done.returncode == 1
    assert f'File "{player}"' in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
