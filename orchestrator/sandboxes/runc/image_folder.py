"""A store of images in a folder, for machines without a Docker engine. Images come from archives, and runc runs them.

Each image is a folder whose name is the image's id. `rootfs.tar` has its merged layers (`image_files.flatten`), and
`image.json` what an engine would report about it. `tags.json` has the names. A process holds the lock while it changes
the store.
"""

import fnmatch
import json
import os
import platform
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from orchestrator.domain.ids import digest
from orchestrator.domain.images import ImageConfig, read_image_config
from orchestrator.errors import InfrastructureFault, Problem, SandboxLost, UsageError
from orchestrator.files import write_whole
from orchestrator.sandboxes.base import BuildRequest, ImageFacts, ImageLayer
from orchestrator.sandboxes.image_files import file_checks, image_config, image_facts
from orchestrator.sandboxes.image_files import layers as layer_files
from orchestrator.sandboxes.image_files.flatten import FlattenedImage
from orchestrator.sandboxes.runc.image_storage import locked, require_disk_space

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The kernel's names of architectures, with the names that images use."""
_ID = re.compile(r"sha256:[0-9a-f]{64}")
_MOUNT_FOLDERS = ("/dev", "/etc", "/proc", "/sys", "/tmp")  # noqa: S108  the image's own
_MOUNT_FILES = ("/etc/hosts",)
"""Mount points of a container. An engine creates them in each of its containers."""
_TAR_TYPE = "application/vnd.oci.image.layer.v1.tar"
_PIECE_BYTES = 1024 * 1024
_STREAM_OVERHEAD_BYTES = 256 * 1024**2
_UNFINISHED = ".new-"
_ENGINE_NEEDED = (
    "images are {} by a Docker engine, and none listens here: start one, or do it on a machine that has one and bring "
    "the package (`sparring submission pack`) here"
)


def default_folder() -> Path:
    """Returns the folder of this user's images."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "sparring" / "images"


class ImageFolder:
    """See `ImageCollection` and `ImageStore`. Threads and orchestrators may share a folder."""

    place: ClassVar[str] = "this machine"
    remedy: ClassVar[str] = "bring it with `sparring image load FILE`, or start a Docker engine that has it"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the description of an image by its name or id; None if there is none."""
        identity = reference if _ID.fullmatch(reference) else self._tags().get(reference, "")
        path = self._path(identity) / "image.json"
        if not identity or not path.exists():
            return None
        image: dict[str, Any] = json.loads(path.read_bytes())
        return image

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images whose name matches a pattern."""
        tags = self._tags()
        names = (name for name in tags if fnmatch.fnmatchcase(name.partition(":")[0], pattern))
        return [{"Id": tags[name], "RepoTags": [name]} for name in names]

    def architecture(self) -> str:
        """Returns this machine's architecture in the notation of images, such as `amd64`."""
        machine = platform.machine()
        return _ARCHITECTURES.get(machine, machine)

    def file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns the problems in an image's files that prevent it from playing; reads its tar stream."""
        size = int(image["Size"])
        try:
            merged = layer_files.read_layer(self._pieces(image), _TAR_TYPE, layer_files.RemainingBytes(files=size))
        except (layer_files.UnreadableError, layer_files.TooLargeError) as error:
            return [Problem("image", f"its files cannot be read: {error}", image_config.REMEDY)]
        return file_checks.judged(merged.look, config, self.architecture())

    def facts(self, image: Mapping[str, Any], problems: Sequence[Problem], *, files: bool) -> ImageFacts:
        """Returns facts about an image, and about its files if `files`."""
        tree = None
        if files:
            tree = image_facts.read_image_tree(self._pieces(image), int(image["Size"]) + _STREAM_OVERHEAD_BYTES)
        history = [{"Size": size} for size in reversed(image["LayerSizes"])]
        return image_facts.make_image_facts(image, history, problems, tree)

    @contextmanager
    def export(self, image: Mapping[str, Any], working_folder: str) -> Iterator[Iterator[bytes]]:  # noqa: ARG002
        """Yields an image's files as one tar stream. `load` already created the working folder."""
        yield self._pieces(image)

    def store(self) -> "ImageFolder":
        """Returns the folder as a store of images."""
        return self

    # As an `ImageStore`

    def normalise_config(self, config: Mapping[str, Any]) -> bytes:
        """See `ImageStore.normalise_config`."""
        return image_config.normalise_config(config)

    def load(self, config: Mapping[str, Any], layers: Sequence[ImageLayer], tag: str) -> str:
        """Loads an image under this tag and returns its id; see `ImageStore.load`."""
        text = image_config.normalise_layered_config(config, layers)
        identity = digest(text)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder / "lock"):
            for unfinished in self.folder.glob(f"{_UNFINISHED}*"):  # left by a command that was killed
                shutil.rmtree(unfinished, ignore_errors=True)
            if not self._path(identity).exists():
                self._write(identity, json.loads(text), layers)
            self._write_tags(self._tags() | {tag: identity})
        return identity

    def untag(self, tag: str) -> None:
        """Removes a tag, and with its last tag the image."""
        if not self.folder.exists():
            return
        with locked(self.folder / "lock"):
            tags = self._tags()
            identity = tags.pop(tag, "")
            self._write_tags(tags)
            if identity and identity not in tags.values():
                shutil.rmtree(self._path(identity), ignore_errors=True)

    def build(self, request: BuildRequest, on_line: Callable[[str], None]) -> NoReturn:
        """Raises UsageError, because there is no builder."""
        del request, on_line
        raise UsageError(_ENGINE_NEEDED.format("built"))

    def save(self, reference: str) -> NoReturn:
        """Raises UsageError, because the layers are not kept."""
        del reference
        raise UsageError(_ENGINE_NEEDED.format("packed"))

    def push(self, image: str, name: str, login: tuple[str, str] | None) -> NoReturn:
        """Raises UsageError, because the layers are not kept."""
        del image, name, login
        raise UsageError(_ENGINE_NEEDED.format("pushed"))

    def _path(self, identity: str) -> Path:
        return self.folder / identity.removeprefix("sha256:")

    def _tags(self) -> dict[str, str]:
        path = self.folder / "tags.json"
        tags: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
        return tags

    def _write_tags(self, tags: Mapping[str, str]) -> None:
        write_whole(self.folder / "tags.json", json.dumps(tags, indent=1).encode())

    def _write(self, identity: str, config: Mapping[str, Any], layers: Sequence[ImageLayer]) -> None:
        """Writes an image completely or not at all."""
        require_disk_space(self.folder, sum(layer.size for layer in layers))
        files = FlattenedImage(layers)
        player_config, problems = read_image_config({"Config": config["config"]})
        # A refused image never starts, and its working folder may be any path.
        for path in (*_MOUNT_FOLDERS, *(() if problems else (posixpath.normpath(player_config.folder),))):
            files.add_folder(path)
        for path in _MOUNT_FILES:
            files.add_file(path)
        unfinished = self.folder / f"{_UNFINISHED}{self._path(identity).name}"
        unfinished.mkdir(mode=0o700)
        try:
            with (unfinished / "rootfs.tar").open("xb") as file:
                for piece in files.tar_pieces():
                    file.write(piece)
                size = file.tell()
                file.flush()
                os.fsync(file.fileno())
            facts = {"Id": identity, "Architecture": config["architecture"], "Os": config["os"], "Size": size}
            facts |= {"Config": config["config"], "LayerSizes": [layer.size for layer in layers]}
            write_whole(unfinished / "image.json", json.dumps(facts, indent=1).encode())
            unfinished.rename(self._path(identity))
        except OSError as error:
            raise InfrastructureFault(f"an image cannot be kept in {self.folder}: {error}; free space there") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _pieces(self, image: Mapping[str, Any]) -> Iterator[bytes]:
        try:
            with (self._path(str(image["Id"])) / "rootfs.tar").open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise SandboxLost(f"image {image['Id']} cannot be read: {error}; load it again") from error
