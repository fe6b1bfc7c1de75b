"""What a participant meets first: `sparring submission init`, and the shell that completes it."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from orchestrator.application.submissions import self_check as wiring
from orchestrator.cli import submission_check
from orchestrator.cli.app import app
from orchestrator.domain.submissions import Side
from orchestrator.intake import manifest, scaffold

runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_init_says_what_to_do_next(here) -> None:
    """It names what was made, the line to change, the licence, and the next commands in their order."""
    done = sparring("submission", "init", "attack", "mine")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[:4]] == ["made", "change", "licence", "next"]
    assert "mine/player.py, at the line that says CHANGE THIS" in done.stdout
    assert "Apache-2.0, in LICENSE and submission.yaml: yours to choose, see --licence" in done.stdout
    commands = [" ".join(line).removeprefix("next ") for line in lines[3:]]
    assert commands == [
        "sparring submission check mine",
        "sparring submission try mine --against undefended",
        "sparring submission pack mine",
    ]
    assert manifest.read_manifest(here / "mine").name == "mine"
    assert done.stderr == ""


@pytest.mark.parametrize("side", Side)
def test_who_is_to_be_tried_first_plays_by_default(side) -> None:
    """The baseline that a new folder is told to try is one that `try` offers to its side without --contest."""
    assert scaffold.FIRST_OPPONENT[side] in wiring.opponents(submission_check.CheckOptions().read_contest(), side)


def test_init_gives_json(here) -> None:
    """With --json the same is one document."""
    done = sparring("submission", "init", "defence", "mine", "--framework", "c", "--out", "there/deep", "--json")
    made = json.loads(done.stdout)
    assert made["folder"] == str(here / "there" / "deep")
    assert set(made["files"]) == {path.name for path in (here / "there" / "deep").iterdir()}
    assert made["player"] == "player.c"
    assert made["next"][:2] == ["make -C there/deep", "sparring submission check there/deep"]
    assert (made["licence"], made["osi_approved"]) == ("Apache-2.0", True)


def test_a_licence_that_is_not_open_is_warned_of(here) -> None:
    """A licence that rule A6 does not take is written as asked, with a warning."""
    done = sparring("submission", "init", "attack", "mine", "--licence", "CC-BY-NC-4.0")
    assert done.exit_code == 0
    assert "warning: CC-BY-NC-4.0 is not the SPDX id of an OSI-approved licence (A6)" in done.stderr
    assert manifest.read_manifest(here / "mine").licence == "CC-BY-NC-4.0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attack", "Mine"], "'Mine' cannot be a submission's name; begin with a letter or digit"),
        (
            ["attack", "mine", "--licence", "what I like"],
            "'what I like' is not an SPDX id; see https://spdx.org/licenses/",
        ),
        (["attack", "full"], "full is there already and not empty; give another name, or another --out"),
        (
            ["attack", "mine", "--out", "full/file/mine"],
            "--out full/file/mine: Not a directory; give the path",
        ),
        (["attack", "\x1b[2Jx"], r"'\x1b[2Jx' cannot be"),
    ],
)
def test_what_cannot_be_made_is_a_usage_error(here, arguments, said) -> None:
    """It ends with 2 and the remedy, and nothing is written."""
    (here / "full").mkdir()
    (here / "full" / "file").write_text("keep")
    done = sparring("submission", "init", *arguments)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())
    assert sorted(path.name for path in here.rglob("*")) == ["file", "full"]


@pytest.mark.parametrize("arguments", [["judge", "mine"], ["attack", "mine", "--framework", "jax"], ["attack"]])
def test_unknown_words_are_usage_errors(here, arguments) -> None:
    """A side or framework that there is not, or no name, ends with 2 and names what there is."""
    done = sparring("submission", "init", *arguments)
    assert done.exit_code == 2
    assert not any(here.iterdir())


def complete(words: str, home, shell: str = "complete_bash") -> str:
    """Returns what the shell is told when TAB is pressed after these words."""
    environment = {"HOME": str(home), "_SPARRING_COMPLETE": shell}
    environment |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = CliRunner().invoke(app, prog_name="sparring", env=environment)
    assert isinstance(done.exception, SystemExit | None)
    return done.stdout


@pytest.mark.slow
def test_the_program_itself_completes(here) -> None:
    """As a process of its own, which is how a shell asks it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(here), "_SPARRING_COMPLETE": "complete_bash"}
    program = "from orchestrator.cli.app import app; app(prog_name='sparring')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"COMP_WORDS": "sparring subm", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert set(done.stdout.split()) == {"submit", "submission"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_gets_a_script(here, shell) -> None:
    """For each of three shells there is a script that asks this program for completions."""
    script = complete("", here, f"source_{shell}")
    assert "_SPARRING_COMPLETE=complete_" + shell in script
    assert "sparring" in script


def test_the_shell_completes_commands_and_values(here) -> None:
    """TAB completes groups, commands, options and the values of an option."""
    assert set(complete("sparring subm", here).split()) == {"submit", "submission"}
    assert "init" in complete("sparring submission i", here).split()
    assert "--framework" in complete("sparring submission init attack mine --fr", here).split()
    assert complete("sparring submission init attack mine --framework py", here).split() == ["pytorch"]
    assert set(complete("sparring submission init ", here).split()) == {"attack", "defence"}


def test_completion_is_an_option(here) -> None:
    """The options that show and install the script are there."""
    shown = sparring("--help").stdout
    assert "--install-completion" in shown
    assert "--show-completion" in shown
