"""Checks the files of an image in a registry by its layers' headers, as the docker backend checks an image's files.

Each layer is fetched once and read as a stream. Only its paths and the heads of its programs are kept, for as many
layers as `_LAYER_CACHE_BYTES` allows, because entries are built on the same few layers. A dropped layer is fetched
again.
"""

import threading

from orchestrator.domain.images import MAX_IMAGE_BYTES, ImageConfig, oversized
from orchestrator.errors import Problem
from orchestrator.oci.manifests import Descriptor
from orchestrator.oci.references import ImageReference
from orchestrator.oci.resolver import ImageResolver, ResolvedImage
from orchestrator.sandboxes.image_files import file_checks, layers, mount_points
from orchestrator.sandboxes.image_files.layers import Layer, RemainingBytes, TooLargeError, UnreadableError, ZstdError

_LAYER_CACHE_BYTES = 512 * 1024**2
"""The most bytes of memory for layers that are kept for the next images."""
_REBUILD_REMEDY = "build the image again and push it with docker, podman or skopeo"
_GZIP_REMEDY = "pack its layers with gzip, or push it by `sparring cluster push`, from a machine whose engine has it"


class RegistryImageFiles:
    """Checks images by their layers. Threads may share it; one waits for another."""

    def __init__(self, registries: ImageResolver) -> None:
        self._registries = registries
        self._lock = threading.Lock()
        self._layers: dict[tuple[str, str], Layer] = {}
        self._judged: dict[tuple[str, str], tuple[Problem, ...]] = {}

    def problems(
        self, name: ImageReference, found: ResolvedImage, config: ImageConfig, architecture: str
    ) -> list[Problem]:
        """Returns the problems of the files of an image whose configuration is valid.

        Raises:
            UnusableImageError: a layer is missing, or does not have its digest.
            BackendUnavailable: the registry is unavailable, busy or cannot be trusted.
        """
        with self._lock:
            key = found.digest, architecture
            if key not in self._judged:
                self._judged[key] = tuple(self._judge(name, found, config, architecture))
            return list(self._judged[key])

    def _judge(
        self, name: ImageReference, image: ResolvedImage, config: ImageConfig, architecture: str
    ) -> list[Problem]:
        room, layers = RemainingBytes(MAX_IMAGE_BYTES), []
        for number, descriptor in enumerate(image.layers, start=1):
            try:
                layers.append(self._layer(name, descriptor, room))
            except UnreadableError as error:
                remedy = _GZIP_REMEDY if isinstance(error, ZstdError) else _REBUILD_REMEDY
                return [Problem(f"layer {number}", str(error), remedy)]
            except TooLargeError as error:
                return [_too_large_problem(error)]
        look = mount_points.merge_layers([layer.look for layer in reversed(layers)])
        return file_checks.judged(look, config, architecture)

    def _layer(self, name: ImageReference, layer: Descriptor, room: RemainingBytes) -> Layer:
        """Returns a layer, and subtracts its size from the bytes that its image may still have."""
        key = layer.digest, layer.media_type
        contents = self._layers.pop(key, None)
        if contents is None:
            contents = self._registries.layer(
                name, layer, lambda pieces: layers.read_layer(pieces, layer.media_type, room)
            )
        room.take(contents)
        if room.files < 0:
            raise TooLargeError("bytes")
        if room.kept < 0:
            raise TooLargeError("paths")
        self._layers[key] = contents
        self._forget()
        return contents

    def _forget(self) -> None:
        """Drops the least recently used layers until the rest fits."""
        size = sum(layer.kept + layer.heads for layer in self._layers.values())
        while size > _LAYER_CACHE_BYTES:
            oldest = self._layers.pop(next(iter(self._layers)))
            size -= oldest.kept + oldest.heads


def _too_large_problem(error: TooLargeError) -> Problem:
    if str(error) == "bytes":
        return oversized(f"more than {MAX_IMAGE_BYTES}")
    most = layers.MAX_PATH_BYTES
    return Problem(
        "size", f"more files than can be looked at: their names take more than {most} bytes", _REBUILD_REMEDY
    )
