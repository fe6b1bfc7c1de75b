"""`sparring sandbox check` as a reviewer meets it."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from orchestrator import composition
from orchestrator.cli.app import app
from orchestrator.domain.policy import Network
from orchestrator.errors import BackendUnavailable
from orchestrator.sandbox_selftest import selftest

runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def engine(require, tmp_path) -> None:
    """A Docker engine answers."""
    try:
        composition.make_backend("docker", tmp_path).require_available()
    except BackendUnavailable as error:
        require("docker", str(error))


@pytest.mark.docker
def test_a_reviewer_gets_a_table(engine) -> None:
    """Machine, kernel, engine, runtime and date stand over one line for each run, and totals under them."""
    done = sparring("sandbox", "check", "--backend", "docker", "--only", "files-fill-shm", "--prove")
    assert done.exit_code == 0, done.output
    for word in ("date: 20", "machine: ", "kernel: Linux", "docker: engine: ok", "runtime: runc", "files-fill-shm"):
        assert word in done.stdout
    assert "shm removed" in done.stdout
    assert "2 runs: 1 contained, 1 proved" in done.stdout
    assert "[1/2] files-fill-shm: contained" in done.stderr


@pytest.mark.docker
def test_the_same_as_json(engine) -> None:
    """With --json stdout is one document with the machine, every run and the totals."""
    done = sparring("sandbox", "check", "--only", "files-fill-shm", "--json")
    answer = json.loads(done.stdout)
    [line] = answer["programs"]
    assert answer["ok"]
    assert answer["machine"]["runtime"] == "runc"
    assert (line["program"], line["verdict"], line["control_removed"]) == ("files-fill-shm", "contained", False)
    assert line["control"] == "shm"
    assert "No space left" in line["evidence"]
    assert answer["totals"]["contained"] == 1


@pytest.mark.docker
def test_what_gets_through_fails_the_command(engine, monkeypatch) -> None:
    """One program that gets through makes the exit code 1, and the line says how it was seen."""
    prepare = selftest.prepare_context

    def weakened(*arguments):
        context, facts = prepare(*arguments)
        return replace(context, policy_overrides={"network": Network.HOST}), facts

    monkeypatch.setattr(selftest, "prepare_context", weakened)
    done = sparring("sandbox", "check", "--only", "network-host-service", "--json")
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert not answer["ok"]
    assert answer["programs"][0]["verdict"] == "got through"
    assert "visits to the host's services: 1" in answer["programs"][0]["evidence"]


def test_the_process_backend_is_never_fine(monkeypatch) -> None:
    """Where there is no wall nothing is run, the table says so, and the exit code is 1."""
    monkeypatch.setenv("COLUMNS", "180")
    done = sparring("sandbox", "check", "--backend", "process", "--only", "privilege", "--only", "memory")
    assert done.exit_code == 1
    assert "contains nothing" in done.stdout
    assert "the process backend does not isolate" in " ".join(done.stdout.split())
    assert "contained" not in done.stdout


@pytest.mark.docker
def test_a_runtime_that_is_not_there(engine) -> None:
    """A runtime that the engine does not have is our fault, with a remedy, and nothing is run."""
    done = sparring("sandbox", "check", "--runtime", "kata", "--only", "files-fill-shm")
    assert done.exit_code == 3
    assert "there is no runtime kata here" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_program_that_is_not_there() -> None:
    """A name that the self-test has not is a usage error."""
    done = sparring("sandbox", "check", "--only", "files-fil-shm")
    assert done.exit_code == 2
    assert "files-fil-shm" in done.stderr
