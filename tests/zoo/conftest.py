"""What the tests of the zoo share: the docker backend, and where programs are run."""

from pathlib import Path

import pytest

from orchestrator.backends.base import Backend
from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, Rejected
from orchestrator.wiring import machine
from orchestrator.zoo import check
from orchestrator.zoo.context import Context


@pytest.fixture(scope="session")
def docker_backend(require, tmp_path_factory) -> Backend:
    """The docker backend, with an engine behind it."""
    backend = machine.backend("docker", tmp_path_factory.mktemp("docker"))
    try:
        backend.check()
    except BackendUnavailable as error:
        require("docker", f"{error}; .ci/engine.sh starts one")
    return backend


@pytest.fixture(scope="session")
def context(docker_backend, require, tmp_path_factory) -> Context:
    """The zoo on runc."""
    try:
        return check.prepare(docker_backend, Runtime.RUNC, tmp_path_factory.mktemp("zoo"))[0]
    except Rejected as error:
        require("docker", f"{error}; make images")


@pytest.fixture
def hostile() -> Path:
    """The folder of the programs."""
    return Path(__file__).parents[1] / "hostile"
