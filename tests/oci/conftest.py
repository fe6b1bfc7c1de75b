"""Registries for the tests of a cluster's images."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from orchestrator.oci.credentials import Credentials
from orchestrator.oci.resolver import ImageResolver

from .fake_registry import Registry


@pytest.fixture
def start() -> Iterator[Callable[..., Registry]]:
    """Returns a function that starts another registry."""
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(Registry(*given).running())


@pytest.fixture
def registry(start) -> Registry:
    """A registry without TLS."""
    return start()


@pytest.fixture
def slept() -> list[float]:
    """The waits between attempts, in seconds. Tests record them and do not wait."""
    return []


@pytest.fixture
def ask(registry, slept) -> ImageResolver:
    """A client of the registry without credentials."""
    return ImageResolver([registry.host], Credentials, sleep=slept.append)
