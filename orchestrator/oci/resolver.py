"""Asks image registries what an image is: its digest for one platform, its layers, and its configuration.

Every document and every layer is compared with its digest; a tag's is what the registry says now, and from then on the
digest is the image (docs/decisions/0021 has why no library does this for us). Of a layer nothing is kept here.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.oci import manifests
from orchestrator.oci.client import RegistryClient, RegistryDocument
from orchestrator.oci.credentials import Credentials
from orchestrator.oci.manifests import Descriptor, ImageConfiguration, ImageIndex, ImageManifest, UnusableImageError
from orchestrator.oci.references import ImageReference

_ACCEPTED_TYPES = ", ".join((*manifests.MANIFEST_TYPES, *manifests.INDEX_TYPES))
_MAX_INDEX_DEPTH = 3
"""How many indexes may stand on top of each other."""
Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image as its registry describes it. `layers` lie there packed, the lowest first.

    `identities` are the digests that an engine may know it by: that of its configuration or, where images are kept as a
    registry has them, of its manifest or of the index above.
    """

    digest: str
    layers: tuple[Descriptor, ...]
    configuration: ImageConfiguration
    identities: frozenset[str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each layer as they lie there."""
        return tuple(layer.size for layer in self.layers)


class ImageResolver:
    """Every registry that images' names speak of. Threads may share it."""

    def __init__(
        self,
        insecure: Sequence[str] = (),
        credentials: Callable[[], Credentials] = Credentials.from_docker_config,
        *,
        seconds: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`insecure` are hosts, with or without a port, that are asked without TLS.

        `credentials` are read anew for each image, since a mounted secret may change. `seconds` bound what is waited
        for one document between attempts.
        """
        self._insecure = frozenset(insecure)
        self._credentials = credentials
        self._seconds, self._sleep = seconds, sleep

    def resolve(self, name: ImageReference, platform: str) -> ResolvedImage:
        """Returns what an image is on a platform, such as linux/amd64.

        Raises:
            UnusableImageError: it is not there (ImageNotFoundError), not for us, or nothing that is played.
            BackendUnavailable: its registry is away, busy or not to be trusted.
            UsageError: the operator's file of credentials is damaged.
        """
        with self._client(name) as talk:
            digests, manifest = _find_manifest(talk, name.tag_or_digest, platform)
            document = _fetch_configuration(talk, manifest.config.digest, manifest.config.size)
            configuration = manifests.parse_configuration(document, len(manifest.layers))
            identities = frozenset((*digests, manifest.config.digest))
            return ResolvedImage(digests[-1], tuple(manifest.layers), configuration, identities)

    def layer(self, name: ImageReference, layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
        """Returns what `read` makes of a layer's bytes, which come packed and in pieces.

        It is called again for a layer that was cut short. What it leaves is read too: what it made counts if all of it
        has the layer's digest.

        Raises:
            UnusableImageError: the layer is not there, not for us, or not those bytes.
            BackendUnavailable: its registry is away, busy or not to be trusted.
        """
        with self._client(name) as talk:
            return talk.stream(f"blobs/{layer.digest}", layer.size, lambda pieces: _proved(pieces, layer, read))

    def ping(self, name: ImageReference) -> None:
        """Raises BackendUnavailable where the registry of that name does not answer."""
        with self._client(name) as talk:
            talk.ping()

    def _client(self, name: ImageReference) -> RegistryClient:
        credentials = self._credentials()
        return RegistryClient(
            name,
            lambda: credentials.login_for(name.host, name.repository),
            self._is_insecure,
            seconds=self._seconds,
            sleep=self._sleep,
        )

    def _is_insecure(self, host: str) -> bool:
        return host in self._insecure or host.partition(":")[0] in self._insecure


def _find_manifest(client: RegistryClient, tag_or_digest: str, platform: str) -> tuple[list[str], ImageManifest]:
    """Returns a platform's manifest, behind `_MAX_INDEX_DEPTH` indexes at most, and the digests on the way."""
    size, digests = None, []
    for _ in range(_MAX_INDEX_DEPTH + 1):
        got = client.get_document(f"manifests/{tag_or_digest}", _ACCEPTED_TYPES, manifests.MAX_BYTES)
        digests.append(_verified_digest(got, tag_or_digest, size))
        found = manifests.parse_manifest(got.data, got.content_type)
        if isinstance(found, ImageManifest):
            return digests, found
        tag_or_digest, size = _select_entry(found, platform)
    raise UnusableImageError(
        "manifest", f"more than {_MAX_INDEX_DEPTH} indexes on top of each other", "push the image itself"
    )


def _select_entry(index: ImageIndex, platform: str) -> tuple[str, int]:
    entry = manifests.select_platform(index, platform)
    return entry.digest, entry.size


def _verified_digest(document: RegistryDocument, tag_or_digest: str, size: int | None) -> str:
    """Returns the digest of what came: the one that was asked for, or the one that the registry gives a tag."""
    if tag_or_digest.startswith("sha256:"):
        manifests.verify_digest(document.data, tag_or_digest, size)
        return tag_or_digest
    found = manifests.sha256_digest(document.data)
    if document.digest.startswith("sha256:"):
        manifests.verify_digest(document.data, document.digest)
    return found


def _proved(pieces: Iterator[bytes], layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
    """Returns what is made of a layer's bytes. Raises UnusableImageError where they are not those that were named."""
    proof = manifests.Proof()
    counted = proof.over(pieces)
    result = read(counted)
    for _ in counted:
        pass
    proof.check(layer.digest, layer.size)
    return result


def _fetch_configuration(client: RegistryClient, digest: str, size: int) -> bytes:
    if size > manifests.MAX_BYTES:
        problem = f"a configuration of {size} bytes, at most {manifests.MAX_BYTES}"
        raise UnusableImageError("configuration", problem, "leave out labels and history that nobody reads")
    data = client.get_document(f"blobs/{digest}", "*/*", manifests.MAX_BYTES).data
    manifests.verify_digest(data, digest, size)
    return data
