"""The command line starts without the heavy libraries."""

import json
import os
import re
import subprocess
import sys

import pytest

from orchestrator import __version__

HEAVY = ["torch", "sklearn", "scipy", "docker", "kubernetes", "foolbox", "requests", "structlog"]
ASK = "import json, sys; import {}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"


def loaded(module: str) -> set[str]:
    """Returns the top-level names that importing a module in a fresh interpreter loads."""
    done = subprocess.run([sys.executable, "-c", ASK.format(module)], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.slow
def test_the_command_line_loads_nothing_heavy() -> None:
    """Importing every command loads neither torch nor scikit-learn nor an engine's client nor what writes logs."""
    names = loaded("orchestrator.cli.app")
    assert {"orchestrator", "typer", "numpy"} <= names
    assert not names & set(HEAVY)


def modules_of(command: str) -> set[str]:
    """Returns the modules of ours that are loaded where a command runs."""
    program = "import json, sys; from orchestrator.cli.commands import make_app; make_app(sys.argv[1])"
    words = [sys.executable, "-c", f"{program}; print(json.dumps([*sys.modules]))", command]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {name.removeprefix("orchestrator.") for name in json.loads(done.stdout) if name.startswith("orchestrator.")}


def imported_by(*words: str) -> set[str]:
    """Returns the modules that a command imports while it runs."""
    command = [sys.executable, "-X", "importtime", "-m", "orchestrator", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))


def test_a_command_that_logs_nothing_loads_no_logging_library() -> None:
    """It sets up logging, but structlog is imported with the first line."""
    names = imported_by("explain", "deadline")
    assert "orchestrator.logs" in names
    assert not names & set(HEAVY)


def test_a_command_imports_no_other() -> None:
    """`sparring explain` reads pages: it imports nothing that plays, keeps or shows a contest."""
    names = modules_of("explain")
    assert {"cli.commands", "cli.explain"} <= names
    assert not names & {"cli.season", "cli.rounds", "application", "ledger", "formats", "execution"}


def test_a_board_needs_no_cluster_and_no_format() -> None:
    """The commands of a contest import nothing of a cluster but its settings, no format, and no other commands."""
    names = modules_of("board")
    assert {name for name in names if name.startswith("executors.kubernetes.")} == {
        "executors.kubernetes.settings",
        "executors.kubernetes.timings",
    }
    assert {name for name in names if name.startswith("formats")} <= {"formats"}
    assert not names & {"cli.publish", "cli.serve", "cli.sandbox", "cli.submission"}


def test_a_report_needs_no_other_command() -> None:
    """`sparring report` imports nothing that plays rounds, trains baselines or serves a site, and no other command."""
    names = modules_of("report")
    ours = {name for name in names if name.startswith("cli.")}
    assert ours == {"cli.commands", "cli.console", "cli.pod", "cli.report"}
    assert not names & {"application.baselines.training", "application.contests.demo_contest"}
    assert not {name.partition(".")[0] for name in names} & {"execution", "executors", "intake", "sandboxes"}


def test_a_ledger_in_a_file_is_read_by_the_standard_library(tmp_path) -> None:
    """SQLAlchemy holds connections to PostgreSQL; commands of a contest in a folder do not import it."""
    program = (
        "import sys; from pathlib import Path; from orchestrator.ledger.round_folder import open_ledger; "
        "ledger = open_ledger(Path(sys.argv[1])); list(ledger.read()); ledger.close(); "
        "print('sqlalchemy' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "ledger.sqlite")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_version_is_printed_without_the_commands() -> None:
    """`sparring --version` imports no command and no library."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert done.stdout == f"sparring {__version__}\n"
    assert {name for name in names if name.startswith("orchestrator")} == {"orchestrator"}
    assert not names & {*HEAVY, "numpy", "pydantic", "typer"}


def test_a_command_starts_no_thread_for_linear_algebra() -> None:
    """NumPy's import makes one for each other processor, unless the variable is set; one that people set stays."""
    program = (
        "import os, sys; from orchestrator.__main__ import main; sys.argv[1:] = ['explain', 'deadline']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import numpy; print(); print(len(os.listdir('/proc/self/task')), os.environ['OPENBLAS_NUM_THREADS'])"
    )
    given = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ours, theirs = (
        subprocess.run([sys.executable, "-c", program], env=given | more, capture_output=True, text=True, check=True)
        for more in ({}, {"OPENBLAS_NUM_THREADS": "2"})
    )
    assert ours.stdout.splitlines()[-1] == "1 1"
    assert theirs.stdout.splitlines()[-1].endswith(" 2")


def test_a_command_looks_for_no_garbage_at_its_end() -> None:
    """Its objects are frozen by then: a search through all of them would take longer than many commands."""
    program = (
        "import atexit, gc, sys; from orchestrator.__main__ import main; sys.argv[1:] = ['explain', 'deadline']\n"
        "atexit.register(lambda: print(f'\\n{gc.get_freeze_count()} {len(gc.get_objects())}'))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    frozen, other = map(int, done.stdout.splitlines()[-1].split())
    assert frozen > 100 * other


@pytest.mark.parametrize("module", ["orchestrator.datasets.digits", "orchestrator.application.baselines.training"])
def test_heavy_libraries_wait_until_they_are_used(module) -> None:
    """The digits are read without scikit-learn, and training leaves torch to its own process."""
    assert not loaded(module) & set(HEAVY)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["play", "--job", "{}", "--blobs", "{}", "--io", "{}"], "orchestrator.application.rounds.pod_driver"),
        (["probe", "--storage", "{}", "--tell", "{}/told"], "orchestrator.executors.kubernetes.connectivity_probe"),
    ],
)
def test_what_runs_in_a_pod_imports_no_other_command(words, needed, tmp_path) -> None:
    """Every attempt at a job starts it anew, with half a processor: it reads neither other commands nor their needs."""
    given = ["pod", *(word.format(tmp_path) for word in words)]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator", *given], capture_output=True, text=True, check=False
    )
    names = set(re.findall(r"^import time: .*\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert needed in names, done.stderr[-2000:]
    assert not {name for name in names if name.startswith("orchestrator.cli.")} - {
        "orchestrator.cli.console",
        "orchestrator.cli.pod",
        "orchestrator.cli.pod_probe",
    }
    assert not {name.split(".")[0] for name in names} & {*HEAVY, "cryptography", "jinja2", "PIL", "sqlalchemy"}
    assert not names & {
        "ruamel.yaml",
        "orchestrator.integrity.determinism_check",
        "orchestrator.executors.kubernetes.failed_start",
    }
    assert ("orchestrator.executors.kubernetes.connectivity_probe" in names) == (words[0] == "probe")
    assert (
        needed == "orchestrator.application.rounds.pod_driver"
        or "orchestrator.application.rounds.pod_driver" not in names
    )
