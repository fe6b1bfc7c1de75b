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
        credentials: Callable[[], Credentials] = Credentials.read,
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

    def describe(self, name: ImageReference, platform: str) -> ResolvedImage:
        """Returns what an image is on a platform, such as linux/amd64.

        Raises:
            UnusableImageError: it is not there (ImageNotFoundError), not for us, or nothing that is played.
            BackendUnavailable: its registry is away, busy or not to be trusted.
            UsageError: the operator's file of credentials is damaged.
        """
        with self._talk(name) as talk:
            digests, found = _find_manifest(talk, name.wanted, platform)
            described = _fetch_configuration(talk, found.config.digest, found.config.size)
            configuration = manifests.parse_configuration(described, len(found.layers))
            identities = frozenset((*digests, found.config.digest))
            return ResolvedImage(digests[-1], tuple(found.layers), configuration, identities)

    def layer(self, name: ImageReference, layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
        """Returns what `read` makes of a layer's bytes, which come packed and in pieces.

        It is called again for a layer that was cut short. What it leaves is read too: what it made counts if all of it
        has the layer's digest.

        Raises:
            UnusableImageError: the layer is not there, not for us, or not those bytes.
            BackendUnavailable: its registry is away, busy or not to be trusted.
        """
        with self._talk(name) as talk:
            return talk.stream(f"blobs/{layer.digest}", layer.size, lambda pieces: _proved(pieces, layer, read))

    def knock(self, name: ImageReference) -> None:
        """Raises BackendUnavailable where the registry of that name does not answer."""
        with self._talk(name) as talk:
            talk.knock()

    def _talk(self, name: ImageReference) -> RegistryClient:
        credentials = self._credentials()
        return RegistryClient(
            name,
            lambda: credentials.of(name.host, name.repository),
            self._plain,
            seconds=self._seconds,
            sleep=self._sleep,
        )

    def _plain(self, host: str) -> bool:
        return host in self._insecure or host.partition(":")[0] in self._insecure


def _find_manifest(talk: RegistryClient, wanted: str, platform: str) -> tuple[list[str], ImageManifest]:
    """Returns a platform's manifest, behind at most `_DEEPEST` indexes, and the digests on the way; its own is last."""
    size, digests = None, []
    for _ in range(_MAX_INDEX_DEPTH + 1):
        got = talk.get(f"manifests/{wanted}", _ACCEPTED_TYPES, manifests.MAX_BYTES)
        digests.append(_verified_digest(got, wanted, size))
        found = manifests.parse_manifest(got.data, got.content_type)
        if isinstance(found, ImageManifest):
            return digests, found
        wanted, size = _select_entry(found, platform)
    raise UnusableImageError(
        "manifest", f"more than {_MAX_INDEX_DEPTH} indexes on top of each other", "push the image itself"
    )


def _select_entry(index: ImageIndex, platform: str) -> tuple[str, int]:
    entry = manifests.select_platform(index, platform)
    return entry.digest, entry.size


def _verified_digest(got: RegistryDocument, wanted: str, size: int | None) -> str:
    """Returns the digest of what came: the one that was asked for, or the one that the registry gives a tag."""
    if wanted.startswith("sha256:"):
        manifests.verify_digest(got.data, wanted, size)
        return wanted
    found = manifests.sha256_digest(got.data)
    if got.digest.startswith("sha256:"):
        manifests.verify_digest(got.data, got.digest)
    return found


def _proved(pieces: Iterator[bytes], layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
    """Returns what is made of a layer's bytes. Raises UnusableImageError where they are not those that were named."""
    proof = manifests.Proof()
    counted = proof.over(pieces)
    made = read(counted)
    for _ in counted:
        pass
    proof.check(layer.digest, layer.size)
    return made


def _fetch_configuration(talk: RegistryClient, digest: str, size: int) -> bytes:
    if size > manifests.MAX_BYTES:
        what = f"a configuration of {size} bytes, at most {manifests.MAX_BYTES}"
        raise UnusableImageError("configuration", what, "leave out labels and history that nobody reads")
    data = talk.get(f"blobs/{digest}", "*/*", manifests.MAX_BYTES).data
    manifests.verify_digest(data, digest, size)
    return data
