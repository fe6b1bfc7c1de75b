"""What the tests of the self-test share: the docker backend, and where programs are run."""

from pathlib import Path

import pytest

from orchestrator import composition
from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, Rejected
from orchestrator.sandbox_selftest import selftest
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandboxes.base import Backend


@pytest.fixture(scope="session")
def docker_backend(require, tmp_path_factory) -> Backend:
    """The docker backend, with an engine behind it."""
    backend = composition.make_backend("docker", tmp_path_factory.mktemp("docker"))
    try:
        backend.check()
    except BackendUnavailable as error:
        require("docker", f"{error}; .ci/engine.sh starts one")
    return backend


@pytest.fixture(scope="session")
def context(docker_backend, require, tmp_path_factory) -> Context:
    """The self-test on runc."""
    try:
        return selftest.prepare_context(docker_backend, Runtime.RUNC, tmp_path_factory.mktemp("zoo"))[0]
    except Rejected as error:
        require("docker", f"{error}; make images")


@pytest.fixture
def hostile() -> Path:
    """The folder of the programs."""
    return Path(__file__).parents[1] / "hostile"
