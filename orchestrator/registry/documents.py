"""What a registry says of an image: its index, its manifest and its configuration, as bytes that a stranger wrote.

Nodes read the same bytes with another parser, which takes a key in any case and the last of two. Whatever two parsers
could read differently is refused here: keys twice or in another case, other encodings, a document that is index and
manifest at once (CVE-2021-41190), layers that are fetched from elsewhere (CVE-2020-15157). No I/O here.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel, to_pascal

from orchestrator.domain.text import printable
from orchestrator.errors import Problem

MOST_BYTES = 1024**2
"""Of one document. Those of real images have 1 to 100 KiB."""
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_OLD = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
_LAYER = re.compile(
    r"application/vnd\.(oci\.image\.layer\.v1\.tar(\+gzip|\+zstd)?|docker\.image\.rootfs\.diff\.tar(\.gzip|\.zstd)?)"
)
_BASELINES = {"amd64": "v1", "arm64": "v8"}
_KEYS = {name.casefold(): name for name in ("schemaVersion", "mediaType", "config", "layers", "manifests")}
_PUSH = "build the image again and push it with docker, podman or skopeo"

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=4096)]
Model = TypeVar("Model", bound=BaseModel)


class UnfitError(Exception):
    """What is there is not to be played; `problem` says why. Our callers make Rejected of it."""

    def __init__(self, place: str, what: str, remedy: str = "") -> None:
        self.problem = Problem(place, what, remedy)
        super().__init__(str(self.problem))


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _spelt(cls, given: Any) -> Any:
        """Refuses a key in another case: the nodes' parser would take it for ours."""
        if isinstance(given, Mapping):
            known = {field.alias or name for name, field in cls.model_fields.items()}
            folded = {name.casefold() for name in known}
            for key in given:
                if key not in known and key.casefold() in folded:
                    raise ValueError(f"the key {printable(key, 40)!r} is spelt otherwise")
        return given


class Platform(_Part):
    """What an image is made for."""

    os: Text = ""
    architecture: Text = ""
    variant: Text | None = None

    def fits(self, wanted: str) -> bool:
        """Whether it is this one: `linux/amd64`, `linux/arm64/v8`."""
        system, machine, variant = (*wanted.split("/"), "", "")[:3]
        plain = _BASELINES.get(machine, "")
        return (self.os, self.architecture, self.variant or plain) == (system, machine, variant or plain)


class Descriptor(_Part):
    """A document or layer, by its digest and its size in bytes."""

    media_type: Text
    digest: Digest
    size: Annotated[int, Field(ge=0, lt=2**62)]
    urls: list[str] | None = None
    platform: Platform | None = None


class Index(_Part):
    """Manifests of one image for several platforms."""

    schema_version: Literal[2]
    manifests: Annotated[list[Descriptor], Field(max_length=1000)]


class Manifest(_Part):
    """One image: its configuration and its layers, the lowest first."""

    schema_version: Literal[2]
    config: Descriptor
    layers: Annotated[list[Descriptor], Field(max_length=1000)]


class _Own(_Part):
    """The keys that docker introduced begin with a capital."""

    model_config = ConfigDict(alias_generator=to_pascal)


class Health(_Own):
    """A check that runs beside the player."""

    test: list[str] | None = None


class Execution(_Own):
    """How a container of this image is started."""

    user: str | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str | None = None
    volumes: dict[str, Any] | None = None
    exposed_ports: dict[str, Any] | None = None
    healthcheck: Health | None = None
    on_build: list[str] | None = None
    labels: dict[str, str] | None = None


class _Files(_Part):
    model_config = ConfigDict(alias_generator=None)

    type: Literal["layers"]
    diff_ids: list[Digest]


class Configuration(_Part):
    """What an image says of itself."""

    model_config = ConfigDict(alias_generator=None)

    architecture: Text
    os: Text
    config: Execution | None = None
    rootfs: _Files

    def inspected(self, digest: str, size: int) -> dict[str, Any]:
        """Returns it as `docker image inspect` would say it, for `domain.images.read_config`."""
        config = (self.config or Execution()).model_dump(by_alias=True, exclude_none=True)
        return {"Id": digest, "Size": size, "Os": self.os, "Architecture": self.architecture, "Config": config}


def digest(data: bytes) -> str:
    """Returns what these bytes are called."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def check(data: bytes, wanted: str, size: int | None = None) -> None:
    """Raises UnfitError where bytes are not those that were named."""
    found = digest(data)
    if size is not None and len(data) != size:
        raise UnfitError("image", f"a document of {len(data)} bytes where {size} were promised", _PUSH)
    if found != wanted:
        raise UnfitError("image", f"the registry gave {found} where {wanted} was asked for", _PUSH)


class Proof:
    """The digest and the length of bytes that pass by."""

    def __init__(self) -> None:
        self._digest, self._length = hashlib.sha256(), 0

    def over(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the pieces."""
        for piece in pieces:
            self._digest.update(piece)
            self._length += len(piece)
            yield piece

    def check(self, wanted: str, size: int) -> None:
        """Raises UnfitError where what passed is not what was named."""
        if self._length != size:
            raise UnfitError("image", f"a layer of {self._length} bytes where {size} were promised", _PUSH)
        if (found := f"sha256:{self._digest.hexdigest()}") != wanted:
            raise UnfitError("image", f"the registry gave {found} where the layer {wanted} was asked for", _PUSH)


def manifest(data: bytes, content_type: str) -> Manifest | Index:
    """Returns what the bytes of a manifest or an index say; `content_type` is the registry's word, "" for none.

    Raises:
        UnfitError: it is neither, or both, or could be read in two ways.
    """
    given = _read(data, "manifest")
    said = given.get("mediaType")
    kind = said if isinstance(said, str) else content_type
    for key in given:
        if _KEYS.get(key.casefold(), key) != key:
            raise UnfitError("manifest", f"the key {printable(key, 40)!r} is spelt otherwise", _PUSH)
    if kind in _OLD or given.get("schemaVersion") == 1:
        raise UnfitError("manifest", "of version 1, which has no configuration", "push it with docker 1.10 or newer")
    known = (*MANIFESTS, *INDEXES)
    if said is not None and said not in known:
        raise UnfitError("manifest", f"not an image but {printable(str(said), 80)}", _PUSH)
    if said is not None and content_type in known and said != content_type:
        what = f"calls itself {printable(str(said), 80)}, and the registry calls it {content_type}"
        raise UnfitError("manifest", what, _PUSH)
    if "manifests" in given and ("config" in given or "layers" in given):
        raise UnfitError("manifest", "index and manifest at once", _PUSH)
    several = kind in INDEXES or (kind not in known and "manifests" in given)
    return _parsed(Index, given, "manifest") if several else _image(_parsed(Manifest, given, "manifest"))


def _image(found: Manifest) -> Manifest:
    """Returns a manifest that is an image's, with layers that lie in its registry."""
    if found.config.media_type not in _CONFIGS:
        what = f"not an image: its configuration is {printable(found.config.media_type, 80)}"
        raise UnfitError("manifest", what, _PUSH)
    for layer in found.layers:
        if not _LAYER.fullmatch(layer.media_type):
            what = f"a layer of type {printable(layer.media_type, 80)}"
            raise UnfitError("manifest", what, "only tar layers that lie in the registry are played; build it again")
    if found.config.urls or any(layer.urls for layer in found.layers):
        raise UnfitError("manifest", "a layer that is fetched from elsewhere (urls)", _PUSH)
    return found


def choose(index: Index, platform: str) -> Descriptor:
    """Returns the first manifest for a platform. Raises UnfitError, naming what there is, where there is none."""
    for entry in index.manifests:
        if entry.platform is not None and entry.platform.fits(platform):
            return entry
    found = [f"{each.platform.os}/{each.platform.architecture}" for each in index.manifests[:8] if each.platform]
    what = f"made for {printable(', '.join(found) or 'no platform', 200)}, and {platform} plays here"
    raise UnfitError("platform", what, f"build it with --platform {platform}")


def configuration(data: bytes, layers: int) -> Configuration:
    """Returns what an image's configuration says; it has to name as many layers as its manifest."""
    found = _parsed(Configuration, _read(data, "configuration"), "configuration")
    if len(found.rootfs.diff_ids) != layers:
        what = f"it names {len(found.rootfs.diff_ids)} layers, and the manifest {layers}"
        raise UnfitError("configuration", what, _PUSH)
    return found


def _read(data: bytes, place: str) -> dict[str, Any]:
    """Returns a JSON object that every parser reads alike."""
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise UnfitError(place, f"not plain JSON: {printable(str(error), 120)}", _PUSH) from None
    if not isinstance(found, dict):
        raise UnfitError(place, "not a JSON object", _PUSH)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _parsed(model: type[Model], given: Mapping[str, Any], place: str) -> Model:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"])) or "top"
        raise UnfitError(place, f"{printable(at, 80)}: {printable(first['msg'], 160)}", _PUSH) from None
