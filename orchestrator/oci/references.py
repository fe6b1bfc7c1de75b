"""The names of images as a cluster's nodes read them: registry, repository, tag and digest.

The grammar is that of the reference implementation (github.com/distribution/reference), which the nodes' runtimes use:
no other name goes into a request or a pod. The first part is a registry if it contains a dot, a colon or a capital
letter, or is `localhost`; all other names are at docker.io.
"""

import re
from dataclasses import dataclass

from orchestrator.domain.text import printable

DOCKER_HUB = "docker.io"
_DOCKER_HUB_ADDRESS = "registry-1.docker.io"
_DOCKER_HUB_ALIASES = frozenset({DOCKER_HUB, "index.docker.io", _DOCKER_HUB_ADDRESS})
_MAX_LENGTH = 255
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class InvalidReferenceError(ValueError):
    """A text that is not the name of an image; the message says why."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image's name. `host` is the registry as people write it; tag and digest are empty if not given."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def address(self) -> str:
        """The address of the registry's API."""
        return _DOCKER_HUB_ADDRESS if self.host == DOCKER_HUB else self.host

    @property
    def tag_or_digest(self) -> str:
        """What the name selects in its repository: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def pull_name(self, digest: str) -> str:
        """Returns the name by which a node pulls the image with this digest."""
        return f"{self.host}/{self.repository}@{digest}"


def parse_reference(text: str, prefix: str = "") -> ImageReference:
    """Returns the parts of an image's name; `prefix`, a registry with or without a path, is for names without one.

    Raises:
        InvalidReferenceError: it is not an image's name, or `prefix` does not begin with a registry.
    """
    display_text = printable(text, 120)
    if len(text) > _MAX_LENGTH:
        raise InvalidReferenceError(f"{len(text)} characters, at most {_MAX_LENGTH}")
    if _DIGEST.fullmatch(text):
        raise InvalidReferenceError(f"{display_text} is a digest without a repository, and a registry needs both")
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidReferenceError(f"{display_text} has no sha256 digest of 64 hexadecimal digits behind its @")
    host, path = _split_registry(rest)
    if not host and prefix:
        host, path = _split_registry(f"{prefix}/{rest}")
        if not host:
            raise InvalidReferenceError(
                f"{printable(prefix, 120)} is not a registry: its first part needs a dot or a port"
            )
    last, colon, tag = path.rpartition(":")
    if colon and "/" not in tag:
        path = last
    else:
        tag, colon = "", ""
    if host in _DOCKER_HUB_ALIASES or not host:
        host, path = DOCKER_HUB, path if "/" in path else f"library/{path}"
    if not _HOST.fullmatch(host) or not _REPOSITORY.fullmatch(path) or (colon and not _TAG.fullmatch(tag)):
        raise InvalidReferenceError(
            f"{display_text} is not like registry/team/entry:1 (lower case, digits, and . _ - between)"
        )
    return ImageReference(host, path, tag, digest)


def _split_registry(text: str) -> tuple[str, str]:
    """Returns the registry and the rest; the registry is empty if the first part cannot be one."""
    first, slash, rest = text.partition("/")
    if slash and (set(".:") & set(first) or first == "localhost" or first != first.lower()):
        return first, rest
    return "", text
