"""Loads images into the engine, and saves images of the engine.

An image gets a new configuration (see `image_files.image_config`). This module makes the archive that the engine loads
from that configuration and checked layers. The image's id is the digest of the configuration, so it is known
beforehand, and the engine has to report the same id.
"""

import io
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from orchestrator.domain.ids import canonical_json, digest
from orchestrator.domain.images import is_image_reference
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, Problem, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import ImageLayer
from orchestrator.sandboxes.docker.engine_http import (
    PIECE_BYTES,
    EngineRefusal,
    RequestCancelled,
    deadline_objection,
    engine_request,
    progress_messages,
)
from orchestrator.sandboxes.docker.images.build import ran_out_of_space
from orchestrator.sandboxes.image_files import image_config
from orchestrator.sandboxes.image_files.image_config import REMEDY

TIMEOUT_SECONDS = 1800.0
_UNTAG_TIMEOUT_SECONDS = 60.0


class LoadEngine(Protocol):
    """The engine's calls that loading and saving use. Each raises SandboxLost if the engine fails."""

    path: str

    def version(self) -> str:
        """Returns the version of the engine's API that the client uses."""
        ...

    def info(self) -> Mapping[str, Any]:
        """Returns the engine's description of itself."""
        ...

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of an image, None if it has no such image."""
        ...


def load_image(engine: LoadEngine, config: Mapping[str, Any], layers: Sequence[ImageLayer], tag: str) -> str:
    """Loads an image and returns its id; see `ImageStore.load`."""
    text = image_config.normalise_layered_config(config, layers)
    identity = digest(text)
    objection = deadline_objection(time.monotonic() + TIMEOUT_SECONDS, f"it took more than {TIMEOUT_SECONDS:g} s")
    archive = _docker_archive(text, layers, tag)
    path = f"/v{engine.version()}/images/load"
    try:
        with engine_request(engine.path, "POST", path, {"quiet": "1"}, archive, objection) as answer:
            for _ in progress_messages(answer):
                pass
    except RequestCancelled as error:
        raise SandboxLost(f"loading {printable(tag)}: {error}") from error
    except EngineRefusal as error:
        if ran_out_of_space(engine, error):
            raise InfrastructureFault(f"the engine's disk is full: {error}; free space (`docker system df`)") from error
        raise Rejected("image", [Problem("layers", f"the engine cannot unpack them: {error}", REMEDY)]) from error
    loaded = engine.image(tag)
    if loaded is None or loaded.get("Id") != identity:
        actual = printable(str(loaded.get("Id"))) if loaded else "nothing"
        raise InfrastructureFault(
            f"the engine made {actual} of an image whose id is {identity}; an engine that keeps images in containerd's "
            "store names them otherwise: turn that store off"
        )
    return identity


def _docker_archive(config: bytes, layers: Sequence[ImageLayer], tag: str) -> Iterator[bytes]:
    """Yields a docker-archive of one image: its configuration, its layers, and the manifest."""
    name = f"{digest(config).removeprefix('sha256:')}.json"
    yield from _archive_member(name, len(config), iter((config,)))
    names = []
    for layer in layers:
        names.append(f"{layer.diff_id.removeprefix('sha256:')}.tar")
        if names[-1] not in names[:-1]:  # two layers may be the same
            yield from _archive_member(names[-1], layer.size, layer.read_pieces())
    manifest = canonical_json([{"Config": name, "RepoTags": [tag], "Layers": names}]).encode()
    yield from _archive_member("manifest.json", len(manifest), iter((manifest,)))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _archive_member(name: str, size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    yield entry.tobuf(tarfile.GNU_FORMAT)
    missing = size
    for piece in pieces:
        missing -= len(piece)
        yield piece
    if missing:
        raise InfrastructureFault(f"{name} changed by {-missing} bytes while it was sent to the engine; try again")
    yield bytes(-size % tarfile.BLOCKSIZE)


def save_image(engine: LoadEngine, reference: str) -> Iterator[bytes]:
    """Yields an image as a docker-archive; see `ImageStore.save`."""
    if not is_image_reference(reference) or engine.image(reference) is None:
        raise UsageError(f"the engine has no image {printable(reference)}; build it with `sparring submission build`")
    objection = deadline_objection(time.monotonic() + TIMEOUT_SECONDS, f"it took more than {TIMEOUT_SECONDS:g} s")
    path = f"/v{engine.version()}/images/{reference}/get"
    try:
        with engine_request(engine.path, "GET", path, {}, None, objection) as answer:
            reader = io.BufferedReader(answer, PIECE_BYTES)
            while piece := reader.read(PIECE_BYTES):
                yield piece
    except (EngineRefusal, RequestCancelled) as error:
        raise SandboxLost(f"saving {printable(reference)}: {error}") from error


def untag_image(engine: LoadEngine, tag: str) -> None:
    """Removes a tag; see `ImageStore.untag`. An image that a container uses is kept."""
    objection = deadline_objection(time.monotonic() + _UNTAG_TIMEOUT_SECONDS, "it took too long")
    try:
        with (
            suppress(EngineRefusal),
            engine_request(engine.path, "DELETE", f"/v{engine.version()}/images/{tag}", {}, None, objection) as answer,
        ):
            answer.read()
    except RequestCancelled as error:
        raise SandboxLost(f"removing {printable(tag)}: {error}") from error
