"""Asks image registries what an image is: its digest for one platform, its layers, and its configuration.

Every document and every layer is compared with its digest; a tag's is what the registry says now, and from then on the
digest is the image (docs/decisions/0021 has why no library does this for us). Of a layer nothing is kept here.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.registry import documents
from orchestrator.registry.credentials import Credentials
from orchestrator.registry.documents import Configuration, Descriptor, Index, Manifest, UnfitError
from orchestrator.registry.references import Name
from orchestrator.registry.transfer import Conversation, Received

_ACCEPTED = ", ".join((*documents.MANIFESTS, *documents.INDEXES))
_DEEPEST = 3
"""How many indexes may stand on top of each other."""
Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class Described:
    """An image as its registry describes it. `layers` lie there packed, the lowest first.

    `identities` are the digests that an engine may know it by: that of its configuration or, where images are kept as a
    registry has them, of its manifest or of the index above.
    """

    digest: str
    layers: tuple[Descriptor, ...]
    configuration: Configuration
    identities: frozenset[str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each layer as they lie there."""
        return tuple(layer.size for layer in self.layers)


class Registries:
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

    def describe(self, name: Name, platform: str) -> Described:
        """Returns what an image is on a platform, such as linux/amd64.

        Raises:
            UnfitError: it is not there (AbsentError), not for us, or nothing that is played.
            BackendUnavailable: its registry is away, busy or not to be trusted.
            UsageError: the operator's file of credentials is damaged.
        """
        with self._talk(name) as talk:
            digests, found = _manifest(talk, name.wanted, platform)
            described = _blob(talk, found.config.digest, found.config.size)
            configuration = documents.configuration(described, len(found.layers))
            identities = frozenset((*digests, found.config.digest))
            return Described(digests[-1], tuple(found.layers), configuration, identities)

    def layer(self, name: Name, layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
        """Returns what `read` makes of a layer's bytes, which come packed and in pieces.

        It is called again for a layer that was cut short. What it leaves is read too: what it made counts if all of it
        has the layer's digest.

        Raises:
            UnfitError: the layer is not there, not for us, or not those bytes.
            BackendUnavailable: its registry is away, busy or not to be trusted.
        """
        with self._talk(name) as talk:
            return talk.stream(f"blobs/{layer.digest}", layer.size, lambda pieces: _proved(pieces, layer, read))

    def knock(self, name: Name) -> None:
        """Raises BackendUnavailable where the registry of that name does not answer."""
        with self._talk(name) as talk:
            talk.knock()

    def _talk(self, name: Name) -> Conversation:
        credentials = self._credentials()
        return Conversation(
            name,
            lambda: credentials.of(name.host, name.repository),
            self._plain,
            seconds=self._seconds,
            sleep=self._sleep,
        )

    def _plain(self, host: str) -> bool:
        return host in self._insecure or host.partition(":")[0] in self._insecure


def _manifest(talk: Conversation, wanted: str, platform: str) -> tuple[list[str], Manifest]:
    """Returns a platform's manifest, behind at most `_DEEPEST` indexes, and the digests on the way; its own is last."""
    size, digests = None, []
    for _ in range(_DEEPEST + 1):
        got = talk.get(f"manifests/{wanted}", _ACCEPTED, documents.MOST_BYTES)
        digests.append(_identity(got, wanted, size))
        found = documents.manifest(got.data, got.content_type)
        if isinstance(found, Manifest):
            return digests, found
        wanted, size = _next(found, platform)
    raise UnfitError("manifest", f"more than {_DEEPEST} indexes on top of each other", "push the image itself")


def _next(index: Index, platform: str) -> tuple[str, int]:
    entry = documents.choose(index, platform)
    return entry.digest, entry.size


def _identity(got: Received, wanted: str, size: int | None) -> str:
    """Returns the digest of what came: the one that was asked for, or the one that the registry gives a tag."""
    if wanted.startswith("sha256:"):
        documents.check(got.data, wanted, size)
        return wanted
    found = documents.digest(got.data)
    if got.digest.startswith("sha256:"):
        documents.check(got.data, got.digest)
    return found


def _proved(pieces: Iterator[bytes], layer: Descriptor, read: Callable[[Iterator[bytes]], Got]) -> Got:
    """Returns what is made of a layer's bytes. Raises UnfitError where they are not those that were named."""
    proof = documents.Proof()
    counted = proof.over(pieces)
    made = read(counted)
    for _ in counted:
        pass
    proof.check(layer.digest, layer.size)
    return made


def _blob(talk: Conversation, digest: str, size: int) -> bytes:
    if size > documents.MOST_BYTES:
        what = f"a configuration of {size} bytes, at most {documents.MOST_BYTES}"
        raise UnfitError("configuration", what, "leave out labels and history that nobody reads")
    data = talk.get(f"blobs/{digest}", "*/*", documents.MOST_BYTES).data
    documents.check(data, digest, size)
    return data
