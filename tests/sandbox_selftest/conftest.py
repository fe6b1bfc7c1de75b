"""Fixtures for tests of the self-test: the backend for containers, and the contexts in which programs run.

SPARRING_TEST_BACKEND names another backend than docker: runc.
"""

import os
from pathlib import Path

import pytest

from orchestrator import composition
from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, Rejected
from orchestrator.sandbox_selftest import selftest
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Program, read_catalogue
from orchestrator.sandboxes.base import Backend

CONTAINERS = os.environ.get("SPARRING_TEST_BACKEND", "docker")


@pytest.fixture(scope="session")
def container_backend(require, tmp_path_factory) -> Backend:
    """The tested backend, which is available."""
    return _able_to_play(CONTAINERS, require, tmp_path_factory.mktemp("containers"))


@pytest.fixture(scope="session")
def context(container_backend, require, tmp_path_factory) -> Context:
    """The context of the self-test on the tested backend, with runc as the engine's runtime."""
    return _prepared(container_backend, require, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def context_on_runc(require, tmp_path_factory) -> Context:
    """The context of the self-test on the backend runc."""
    backend = _able_to_play("runc", require, tmp_path_factory.mktemp("runc"))
    return _prepared(backend, require, tmp_path_factory.mktemp("programs-on-runc"))


def _able_to_play(name: str, require, folder: Path) -> Backend:
    backend = composition.make_backend(name, folder)
    try:
        backend.require_available()
    except BackendUnavailable as error:
        require(name, f"{error}; .ci/engine.sh starts one")
    return backend


def _prepared(backend: Backend, require, folder: Path) -> Context:
    try:
        return selftest.prepare_context(backend, Runtime.RUNC, folder)[0]
    except Rejected as error:
        require("docker", f"{error}; make images")


@pytest.fixture(scope="session")
def hostile() -> Path:
    """The folder of the hostile programs."""
    return Path(__file__).parents[1] / "hostile"


@pytest.fixture(scope="session")
def programs(hostile) -> dict[str, Program]:
    """Every program by name, read once; reading them is the test that they can be read."""
    return {program.name: program for program in read_catalogue(hostile)}
