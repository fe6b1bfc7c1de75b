"""Resolves an image in its registry: its digest for one platform, its layers, and its configuration.

Every document and every layer is compared with its digest. A tag is resolved once, to the registry's current digest;
from then on the digest names the image. docs/decisions/0021 says why no library does this. Layers are not stored.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.domain.ids import digest
from orchestrator.oci import manifests
from orchestrator.oci.client import RegistryClient, RegistryDocument
from orchestrator.oci.credentials import Credentials
from orchestrator.oci.manifests import Descriptor, ImageConfiguration, ImageManifest, UnusableImageError
from orchestrator.oci.references import ImageReference

_ACCEPTED_TYPES = ", ".join((*manifests.MANIFEST_TYPES, *manifests.INDEX_TYPES))
_MAX_INDEX_DEPTH = 3
"""How many indexes may be nested."""
Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image as its registry describes it. `layers` are compressed, the lowest first.

    `identities` are the digests by which an engine may know it: that of its configuration or, if the engine stores
    images as a registry does, of its manifest or of the index above.
    """

    digest: str
    layers: tuple[Descriptor, ...]
    configuration: ImageConfiguration
    identities: frozenset[str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The compressed size of each layer in bytes."""
        return tuple(layer.size for layer in self.layers)


class ImageResolver:
    """Resolves images in any registry. Threads may share it."""

    def __init__(
        self,
        insecure: Sequence[str] = (),
        credentials: Callable[[], Credentials] = Credentials.from_docker_config,
        *,
        seconds: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`insecure` are hosts, with or without a port, that are asked without TLS.

        `credentials` is called for each image, because a mounted secret may change. `seconds` bounds the waiting
        between attempts for one document.
        """
        self._insecure = frozenset(insecure)
        self._credentials = credentials
        self._seconds, self._sleep = seconds, sleep

    def resolve(self, name: ImageReference, platform: str) -> ResolvedImage:
        """Returns an image for a platform, such as linux/amd64.

        Raises:
            UnusableImageError: it is missing (ImageNotFoundError), forbidden to us, or cannot be played.
            BackendUnavailable: its registry is unavailable, busy or cannot be trusted.
            UsageError: the operator's file of credentials is damaged.
        """
        with self._client(name) as talk:
            digests, manifest = _find_manifest(talk, name.tag_or_digest, platform)
            document = _fetch_configuration(talk, manifest.config.digest, manifest.config.size)
            configuration = manifests.parse_configuration(document, len(manifest.layers))
            identities = frozenset((*digests, manifest.config.digest))
            return ResolvedImage(digests[-1], tuple(manifest.layers), configuration, identities)

    def layer(self, name: ImageReference, layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
        """Returns the result of `read` for a layer's bytes, which are compressed and come in pieces.

        It is called again if the layer is cut short. Bytes that it does not read are read afterwards, because the
        result counts only if the whole layer has its digest.

        Raises:
            UnusableImageError: the layer is missing, forbidden to us, or does not have its digest.
            BackendUnavailable: its registry is unavailable, busy or cannot be trusted.
        """
        with self._client(name) as talk:
            return talk.stream(f"blobs/{layer.digest}", layer.size, lambda pieces: _proved(pieces, layer, read))

    def ping(self, name: ImageReference) -> None:
        """Raises BackendUnavailable if the registry of that name does not answer."""
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
    """Returns the digests on the way to a platform's manifest, through at most `_MAX_INDEX_DEPTH` indexes, and it."""
    size, digests = None, []
    for _ in range(_MAX_INDEX_DEPTH + 1):
        got = client.get_document(f"manifests/{tag_or_digest}", _ACCEPTED_TYPES, manifests.MAX_BYTES)
        digests.append(_verified_digest(got, tag_or_digest, size))
        found = manifests.parse_manifest(got.data, got.content_type)
        if isinstance(found, ImageManifest):
            return digests, found
        entry = manifests.select_platform(found, platform)
        tag_or_digest, size = entry.digest, entry.size
    raise UnusableImageError(
        "manifest", f"more than {_MAX_INDEX_DEPTH} indexes on top of each other", "push the image itself"
    )


def _verified_digest(document: RegistryDocument, tag_or_digest: str, size: int | None) -> str:
    """Returns the verified digest of a document: the one that was asked for, or that of the tag's document."""
    if tag_or_digest.startswith("sha256:"):
        manifests.verify_digest(document.data, tag_or_digest, size)
        return tag_or_digest
    if document.digest.startswith("sha256:"):
        manifests.verify_digest(document.data, document.digest)
    return digest(document.data)


def _proved(pieces: Iterator[bytes], layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
    """Returns the result of `read` for a layer. Raises UnusableImageError if the bytes do not have its digest."""
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
