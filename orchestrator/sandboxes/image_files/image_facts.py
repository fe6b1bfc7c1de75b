"""Collects facts about an image and its files without starting it.

The engine exports a container that was created and never started. This module parses that stream header by header
(`tar_headers`): it unpacks nothing, and bytes, members and time are bounded. At a bound it stops, and
`ImageTree.cut_reason` gives the reason.
"""

import secrets
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

from orchestrator.domain import environment
from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.sandboxes.base import ImageFacts, ImageTree
from orchestrator.sandboxes.image_files import tar_headers
from orchestrator.sandboxes.image_files.mount_points import FileKind
from orchestrator.sandboxes.image_files.tar_headers import BoundedStream, StreamBoundError, TarMember

TIMEOUT_SECONDS = 120.0
"""The time limit for reading an image's files."""
MAX_MEMBERS = 2_000_000
MAX_NAMES_SHOWN = 20
"""The number of names of each category that are kept."""
_STREAM_OVERHEAD_BYTES = 256 * 1024**2
"""Bytes by which a stream may exceed the layers: headers, padding, and holes that the engine writes as zeros."""
_SET_ID, _OTHERS_WRITE = 0o6000, 0o002


def read_image_tree(pieces: Iterator[bytes], max_bytes: int, seconds: float = TIMEOUT_SECONDS) -> ImageTree:
    """Returns facts about the files in a tar stream, which comes in pieces; reads at most `max_bytes` of it."""
    names_by_category: dict[str, list[str]] = {"set_id": [], "capable": [], "devices": [], "writable": []}
    counts = dict.fromkeys(names_by_category, 0)
    files = total = 0
    cut = ""
    stream = BoundedStream(pieces, max_bytes, seconds)
    try:
        for member in tar_headers.read_members(stream):
            if files == MAX_MEMBERS:
                cut = f"it holds more than {MAX_MEMBERS} files"
                break
            files += 1
            total += member.size
            for category in _categories(member):
                counts[category] += 1
                if len(names_by_category[category]) < MAX_NAMES_SHOWN:
                    names_by_category[category].append(printable(b"/" + member.name, 120))
    except StreamBoundError as reason:
        cut = str(reason)
    except ValueError as error:
        cut = f"the stream is no archive: {printable(str(error))}"
    return ImageTree(
        files, total, counts, {category: tuple(names) for category, names in names_by_category.items()}, cut
    )


def _categories(member: TarMember) -> Iterator[str]:
    """Yields the categories of a member."""
    file, folder = member.kind is FileKind.FILE and not member.hard, member.kind is FileKind.FOLDER
    if file and member.mode & _SET_ID:
        yield "set_id"
    if file and member.capable:
        yield "capable"
    if member.device and not member.name.startswith(b"dev/"):
        yield "devices"
    if (file or folder) and member.mode & _OTHERS_WRITE:
        yield "writable"


def make_image_facts(
    image: Mapping[str, Any], history: Sequence[Mapping[str, Any]], problems: Sequence[Problem], tree: ImageTree | None
) -> ImageFacts:
    """Converts the output of `docker image inspect` and `history`. All texts are hostile, and stay unchanged."""
    config = image.get("Config") or {}
    test = (config.get("Healthcheck") or {}).get("Test") or []
    return ImageFacts(
        image_id=str(image["Id"]),
        size=_non_negative(image.get("Size")),
        layers=tuple(_non_negative(layer.get("Size")) for layer in reversed(history)),
        user=str(config.get("User") or ""),
        entrypoint=_string_tuple(config.get("Entrypoint")),
        command=_string_tuple(config.get("Cmd")),
        folder=str(config.get("WorkingDir") or "/"),
        volumes=_string_tuple(config.get("Volumes")),
        ports=_string_tuple(config.get("ExposedPorts")),
        healthcheck=_string_tuple(test),
        on_build=_string_tuple(config.get("OnBuild")),
        labels={str(name): str(value) for name, value in (config.get("Labels") or {}).items()},
        environment=_string_tuple(config.get("Env")),
        passed_variables=frozenset(environment.allowed_variables(_string_tuple(config.get("Env")))),
        problems=tuple(problems),
        tree=tree,
    )


def _string_tuple(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list | dict) else ()


def _non_negative(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


class InspectEngine(Protocol):
    """The engine's calls that `inspect_image` uses. Each raises SandboxLost if the engine fails."""

    def history(self, image: str) -> list[Mapping[str, Any]]:
        """Returns an image's layers, the last one first."""
        ...

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def export(self, container: str) -> Generator[bytes, None, None]:
        """Yields a tar stream, in pieces, of a container's files."""
        ...

    def remove(self, container: str) -> None:
        """Removes a container and its volumes; does nothing if there is no such container."""
        ...


def inspect_image(
    engine: InspectEngine,
    image: Mapping[str, Any],
    problems: Sequence[Problem],
    labels: Mapping[str, str],
    *,
    files: bool,
) -> ImageFacts:
    """Returns facts about an image; if `files`, also those in a container with `labels` that never starts.

    The files of an image with volumes are not read: creating the container would write them to the host's disk.
    """
    config = image.get("Config") or {}
    tree = None
    if files and config.get("Volumes"):
        tree = read_image_tree(iter(()), 0)
        tree = replace(tree, cut_reason="its volumes would be written to this machine's disk")
    elif files:
        container = engine.create(inert_container_options(image, labels), f"sparring-look-{secrets.token_hex(8)}")
        try:
            with closing(engine.export(container)) as pieces:
                tree = read_image_tree(pieces, 2 * _non_negative(image.get("Size")) + _STREAM_OVERHEAD_BYTES)
        finally:
            engine.remove(container)
    return make_image_facts(image, engine.history(str(image["Id"])), problems, tree)


def inert_container_options(image: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the options of a container that only serves to read files: no setting of the image takes effect."""
    return {
        "Image": str(image["Id"]),
        "Entrypoint": ["/never-started"],
        "Cmd": [],
        "WorkingDir": "/",
        "User": "65534:65534",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": dict(labels),
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "LogConfig": {"Type": "none"},
        },
    }
