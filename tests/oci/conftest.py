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
    """How long was waited between attempts: nobody waits in these tests."""
    return []


@pytest.fixture
def ask(registry, slept) -> ImageResolver:
    """Asks that registry as nobody in particular."""
    return ImageResolver([registry.host], Credentials, sleep=slept.append)
