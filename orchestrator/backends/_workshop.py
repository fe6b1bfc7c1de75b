"""The engine as a workshop: images are built, brought in, taken out, pushed, and named by us alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from orchestrator.backends import _building, _loading, _pushing
from orchestrator.backends.base import Layer, Recipe


class Engine(_building.Engine, _loading.Engine, _pushing.Engine, Protocol):
    """What a workshop needs of the engine."""


class EngineWorkshop:
    """See `Workshop`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def build(self, recipe: Recipe, heard: Callable[[str], None]) -> str:
        """Builds an image with the engine's classic builder."""
        return _building.build(self._engine, recipe, heard)

    def plain(self, config: Mapping[str, Any]) -> bytes:
        """Returns a configuration written anew."""
        return _loading.plain(config)

    def load(self, config: Mapping[str, Any], layers: Sequence[Layer], tag: str) -> str:
        """Brings an image in."""
        return _loading.load(self._engine, config, layers, tag)

    def save(self, reference: str) -> Iterator[bytes]:
        """Yields an image as a docker-archive."""
        return _loading.save(self._engine, reference)

    def push(self, image: str, name: str, login: tuple[str, str] | None) -> None:
        """Pushes an image."""
        _pushing.push(self._engine, image, name, login)

    def discard(self, tag: str) -> None:
        """Takes a tag away."""
        _loading.discard(self._engine, tag)
