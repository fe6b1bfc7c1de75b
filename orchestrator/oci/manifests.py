"""Parses an image's index, manifest and configuration, from bytes that a stranger wrote. Without I/O.

Nodes read the same bytes with another parser, which takes a key in any case and the last of two. Everything that two
parsers could read differently is refused: keys twice or in another case, other encodings, a document that is index and
manifest at once (CVE-2021-41190), layers that are fetched from elsewhere (CVE-2020-15157).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel, to_pascal

from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.ids import Digest, digest
from orchestrator.domain.text import printable
from orchestrator.errors import Problem

MAX_BYTES = 1024**2
"""The longest document. Documents of real images have 1 to 100 KiB."""
MANIFEST_TYPES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_CONFIG_TYPES = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_OLD_TYPES = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
_LAYER_TYPE = re.compile(
    r"application/vnd\.(oci\.image\.layer\.v1\.tar(\+gzip|\+zstd)?|docker\.image\.rootfs\.diff\.tar(\.gzip|\.zstd)?)"
)
_DEFAULT_VARIANTS = {"amd64": "v1", "arm64": "v8"}
_KNOWN_KEYS = {name.casefold(): name for name in ("schemaVersion", "mediaType", "config", "layers", "manifests")}
_PUSH_REMEDY = "build the image again and push it with docker, podman or skopeo"

Text = Annotated[str, Field(max_length=4096)]
Model = TypeVar("Model", bound=BaseModel)


class UnusableImageError(Exception):
    """An image that cannot be played; `problem` says why. Callers translate it into Rejected."""

    def __init__(self, place: str, what: str, remedy: str = "") -> None:
        self.problem = Problem(place, what, remedy)
        super().__init__(str(self.problem))


class _DocumentModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_spellings(cls, given: Any) -> Any:
        """Refuses a key in another case: the nodes' parser would take it for ours."""
        if isinstance(given, Mapping):
            known = {field.alias or name for name, field in cls.model_fields.items()}
            folded = {name.casefold() for name in known}
            for key in given:
                if key not in known and key.casefold() in folded:
                    raise ValueError(f"the key {printable(key, 40)!r} is another spelling of a standard key")
        return given


class Platform(_DocumentModel):
    """The platform of an image."""

    os: Text = ""
    architecture: Text = ""
    variant: Text | None = None

    def matches(self, wanted: str) -> bool:
        """Returns whether this is the platform `wanted`, such as `linux/amd64` or `linux/arm64/v8`."""
        system, machine, variant = (*wanted.split("/"), "", "")[:3]
        plain = _DEFAULT_VARIANTS.get(machine, "")
        return (self.os, self.architecture, self.variant or plain) == (system, machine, variant or plain)


class Descriptor(_DocumentModel):
    """A document or layer, by its digest and its size in bytes."""

    media_type: Text
    digest: Digest
    size: Annotated[int, Field(ge=0, lt=2**62)]
    urls: list[str] | None = None
    platform: Platform | None = None


class ImageIndex(_DocumentModel):
    """Manifests of one image for several platforms."""

    schema_version: Literal[2]
    manifests: Annotated[list[Descriptor], Field(max_length=1000)]


class ImageManifest(_DocumentModel):
    """One image: its configuration and its layers, the lowest first."""

    schema_version: Literal[2]
    config: Descriptor
    layers: Annotated[list[Descriptor], Field(max_length=1000)]


class _DockerModel(_DocumentModel):
    """A document with keys that docker introduced, which begin with a capital letter."""

    model_config = ConfigDict(alias_generator=to_pascal)


class HealthCheck(_DockerModel):
    """A check that runs beside the player."""

    test: list[str] | None = None


class ContainerConfig(_DockerModel):
    """How a container of this image is started."""

    user: str | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str | None = None
    volumes: dict[str, Any] | None = None
    exposed_ports: dict[str, Any] | None = None
    healthcheck: HealthCheck | None = None
    on_build: list[str] | None = None
    labels: dict[str, str] | None = None


class _RootFsModel(_DocumentModel):
    model_config = ConfigDict(alias_generator=None)

    type: Literal["layers"]
    diff_ids: list[Digest]


class ImageConfiguration(_DocumentModel):
    """The configuration of an image."""

    model_config = ConfigDict(alias_generator=None)

    architecture: Text
    os: Text
    config: ContainerConfig | None = None
    rootfs: _RootFsModel

    def to_inspect_format(self, digest: str, size: int) -> dict[str, Any]:
        """Returns it in the format of `docker image inspect`, for `domain.images.read_image_config`."""
        config = (self.config or ContainerConfig()).model_dump(by_alias=True, exclude_none=True)
        return {"Id": digest, "Size": size, "Os": self.os, "Architecture": self.architecture, "Config": config}


def verify_digest(data: bytes, expected: str, size: int | None = None) -> None:
    """Raises UnusableImageError if bytes do not have the expected digest, or the expected size if one is given."""
    actual = digest(data)
    if size is not None and len(data) != size:
        raise UnusableImageError(
            "image", f"a document of {len(data)} bytes, but its descriptor says {size}", _PUSH_REMEDY
        )
    if actual != expected:
        raise UnusableImageError("image", f"the registry sent {actual} in place of {expected}", _PUSH_REMEDY)


class Proof:
    """Computes the digest and the length of bytes while they are read."""

    def __init__(self) -> None:
        self._digest, self._length = hashlib.sha256(), 0

    def over(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the pieces, and counts them."""
        for piece in pieces:
            self._digest.update(piece)
            self._length += len(piece)
            yield piece

    def check(self, wanted: str, size: int) -> None:
        """Raises UnusableImageError if the bytes so far do not have this digest and size."""
        if self._length != size:
            raise UnusableImageError(
                "image", f"a layer of {self._length} bytes, but its descriptor says {size}", _PUSH_REMEDY
            )
        if (found := f"sha256:{self._digest.hexdigest()}") != wanted:
            raise UnusableImageError("image", f"the registry sent {found} in place of the layer {wanted}", _PUSH_REMEDY)


def parse_manifest(data: bytes, content_type: str) -> ImageManifest | ImageIndex:
    """Returns the manifest or the index in these bytes; `content_type` is the registry's, "" for none.

    Raises:
        UnusableImageError: the document is neither, or both, or could be read in two ways.
    """
    given = _parse_json(data, "manifest")
    media_type = given.get("mediaType")
    kind = media_type if isinstance(media_type, str) else content_type
    for key in given:
        if _KNOWN_KEYS.get(key.casefold(), key) != key:
            raise UnusableImageError(
                "manifest",
                f"the key {printable(key, 40)!r} is another spelling of a standard key",
                _PUSH_REMEDY,
            )
    if kind in _OLD_TYPES or given.get("schemaVersion") == 1:
        raise UnusableImageError(
            "manifest", "of version 1, which has no configuration", "push it with docker 1.10 or newer"
        )
    known = (*MANIFEST_TYPES, *INDEX_TYPES)
    if media_type is not None and media_type not in known:
        raise UnusableImageError("manifest", f"not an image but {printable(str(media_type), 80)}", _PUSH_REMEDY)
    if media_type is not None and content_type in known and media_type != content_type:
        problem = f"calls itself {printable(str(media_type), 80)}, but the registry calls it {content_type}"
        raise UnusableImageError("manifest", problem, _PUSH_REMEDY)
    if "manifests" in given and ("config" in given or "layers" in given):
        raise UnusableImageError("manifest", "index and manifest at once", _PUSH_REMEDY)
    several = kind in INDEX_TYPES or (kind not in known and "manifests" in given)
    return (
        _validate(ImageIndex, given, "manifest")
        if several
        else _require_image(_validate(ImageManifest, given, "manifest"))
    )


def _require_image(manifest: ImageManifest) -> ImageManifest:
    """Returns the manifest. Raises UnusableImageError if it is not an image's, or a layer is not in its registry."""
    if manifest.config.media_type not in _CONFIG_TYPES:
        problem = f"not an image: its configuration is {printable(manifest.config.media_type, 80)}"
        raise UnusableImageError("manifest", problem, _PUSH_REMEDY)
    for layer in manifest.layers:
        if not _LAYER_TYPE.fullmatch(layer.media_type):
            problem = f"a layer of type {printable(layer.media_type, 80)}"
            raise UnusableImageError(
                "manifest", problem, "build it again with tar layers that are stored in the registry"
            )
    if manifest.config.urls or any(layer.urls for layer in manifest.layers):
        raise UnusableImageError("manifest", "a layer that is fetched from elsewhere (urls)", _PUSH_REMEDY)
    return manifest


def select_platform(index: ImageIndex, platform: str) -> Descriptor:
    """Returns the first manifest for a platform.

    Raises UnusableImageError, which names the platforms of the index, if there is none.
    """
    for entry in index.manifests:
        if entry.platform is not None and entry.platform.matches(platform):
            return entry
    platforms = [f"{each.platform.os}/{each.platform.architecture}" for each in index.manifests[:8] if each.platform]
    problem = f"made for {printable(', '.join(platforms) or 'no platform', 200)}, but {platform} is needed here"
    raise UnusableImageError("platform", problem, f"build it with --platform {platform}")


def parse_configuration(data: bytes, layers: int) -> ImageConfiguration:
    """Returns an image's configuration. Raises UnusableImageError if it names other than `layers` layers."""
    configuration = _validate(ImageConfiguration, _parse_json(data, "configuration"), "configuration")
    if len(configuration.rootfs.diff_ids) != layers:
        problem = f"it names {len(configuration.rootfs.diff_ids)} layers, and the manifest {layers}"
        raise UnusableImageError("configuration", problem, _PUSH_REMEDY)
    return configuration


def _parse_json(data: bytes, place: str) -> dict[str, Any]:
    """Returns the JSON object in these bytes. Raises UnusableImageError if parsers could read it differently."""
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys)
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # fails for half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise UnusableImageError(place, f"not plain JSON: {printable(str(error), 120)}", _PUSH_REMEDY) from None
    if not isinstance(document, dict):
        raise UnusableImageError(place, "not a JSON object", _PUSH_REMEDY)
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key occurs twice")
    return mapping


def _validate(model: type[Model], given: Mapping[str, Any], place: str) -> Model:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problem = field_errors(error)[0].problem()
        raise UnusableImageError(place, f"{problem.place}: {problem.what}", _PUSH_REMEDY) from None
