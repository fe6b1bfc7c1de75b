"""Copies an image's file system to new inodes.

Containers of one image share its layers, and with them the kernel's state about their files: negative directory
entries and the page cache. The kernel keeps this state for each inode. So the engine exports the files from a container
that never starts, and imports them as one new layer. The copy has no tag and nothing of the image's configuration. It
has the labels of its run, by which `clean_up` finds the copies of dead orchestrators.
"""

import os
import re
import secrets
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, SandboxLost
from orchestrator.sandboxes.docker.engine_http import (
    EngineRefusal,
    RequestCancelled,
    deadline_objection,
    engine_request,
    progress_messages,
)
from orchestrator.sandboxes.docker.images.build import MIN_FREE_BYTES, nearest_readable_folder
from orchestrator.sandboxes.docker.images.load import untag_image
from orchestrator.sandboxes.image_files.image_facts import inert_container_options

TIMEOUT_SECONDS = 1800.0
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LABEL = re.compile(r"[\w.:/-]*")


class CopyEngine(Protocol):
    """The engine's calls that copying uses. Each raises SandboxLost if the engine fails."""

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

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def export(self, container: str) -> Generator[bytes, None, None]:
        """Yields a tar stream, in pieces, of a container's files."""
        ...

    def remove(self, container: str) -> None:
        """Removes a container; does nothing if there is no such container."""
        ...

    def nameless_images(self, label: str) -> Sequence[Mapping[str, Any]]:
        """Returns the images that have a label and neither a name nor an image built on them."""
        ...


def copy_image(engine: CopyEngine, image: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Returns the id of a copy of an image's files.

    Args:
        engine: where both are.
        image: what the engine knows of the image.
        labels: what the copy is labelled with; letters, digits, points, colons, slashes and hyphens.

    Raises:
        InfrastructureFault: the engine's disk has no room for it, or the engine failed.
    """
    _require_disk_space(engine, int(image.get("Size") or 0))
    container = engine.create(inert_container_options(image, labels), f"sparring-copy-{secrets.token_hex(8)}")
    try:
        with closing(engine.export(container)) as files:
            return _import_files(engine, files, labels)
    finally:
        engine.remove(container)


def remove_copy(engine: CopyEngine, image_id: str) -> None:
    """Removes a copy; does nothing if there is no such image. Raises SandboxLost if it is still there afterwards."""
    failure = None
    try:
        untag_image(engine, image_id)
    except SandboxLost as error:  # if several threads remove it at once, all but one get this error
        failure = error
    if engine.image(image_id) is not None:
        raise SandboxLost(
            f"the copy {image_id} of an image could not be removed; `docker image rm {image_id}`"
        ) from failure


def find_copies(engine: CopyEngine, label: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields the id and the labels of every copy with a label. An image with a name is not such a copy."""
    for image in engine.nameless_images(label):
        if not [name for name in image.get("RepoTags") or () if name != "<none>:<none>"]:
            yield str(image["Id"]), image.get("Labels") or {}


def _import_files(engine: CopyEngine, files: Iterator[bytes], labels: Mapping[str, str]) -> str:
    bad = [value for value in labels.values() if not _LABEL.fullmatch(value)]
    if bad:
        raise ValueError(f"{bad[0]!r} is no label that an import can be given")
    changes = "\n".join(f"LABEL {name}={value}" for name, value in labels.items())
    query = {"fromSrc": "-", "changes": changes}
    objection = deadline_objection(time.monotonic() + TIMEOUT_SECONDS, f"it took more than {TIMEOUT_SECONDS:g} s")
    try:
        with engine_request(
            engine.path, "POST", f"/v{engine.version()}/images/create", query, files, objection
        ) as answer:
            statuses = [str(message.get("status", "")) for message in progress_messages(answer)]
    except (EngineRefusal, RequestCancelled) as error:
        raise SandboxLost(f"copying an image's files: {error}") from error
    if not statuses or not _DIGEST.fullmatch(statuses[-1]):
        raise SandboxLost(f"copying an image's files: the engine named no image but {printable(str(statuses[-1:]))}")
    return statuses[-1]


def _require_disk_space(engine: CopyEngine, size: int) -> None:
    folder = nearest_readable_folder(Path(str(engine.info().get("DockerRootDir") or "/")))
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < size + MIN_FREE_BYTES:
        raise InfrastructureFault(
            f"the engine's disk has {free} bytes free; a replay copies an image of {size}, and "
            f"{MIN_FREE_BYTES} stay free: "
            "free space (`docker system df`)"
        )
