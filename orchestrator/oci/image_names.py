"""The names of a season's received images in the organizers' registry.

A contest receives an image on an engine, and its identity is the digest of its configuration. A cluster's nodes pull by
the digest of a manifest, and the manifest names that configuration. So looking an image up proves that it has the
recorded identity, and its name need not be trusted.
"""

import re

from orchestrator.domain.text import printable
from orchestrator.oci.references import ImageReference, InvalidReferenceError, parse_reference

NO_REGISTRY = "none"
"""The value of `cluster.registry` if images were loaded onto the nodes."""
_TAG_LENGTH = 16
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def received_image_name(contest: str, submission: str, identity: str) -> str:
    """Returns the name, without its registry, under which a received image is pushed: `cup/red:0123456789abcdef`.

    Names that differ only in `_` and `-` share a repository; the tag, from the identity, tells their images apart.
    """
    return f"{_name_part(contest)}/{_name_part(submission)}:{identity.removeprefix('sha256:')[:_TAG_LENGTH]}"


def registry_prefix(registry: str) -> str:
    """Returns the beginning of every image name in `cluster.registry`, with its slash.

    Raises:
        InvalidReferenceError: `cluster.registry` is empty, `none`, or not a registry.
    """
    if registry == NO_REGISTRY:
        raise InvalidReferenceError(
            "cluster.registry is none, so images are on the nodes only, and nothing can be pushed"
        )
    if not registry:
        raise InvalidReferenceError(
            "cluster.registry is not set, so images cannot be pushed; set it in the contest file"
        )
    name = parse_reference("entry", registry.rstrip("/"))
    if name.host == registry.rstrip("/"):
        return f"{name.host}/"
    return f"{name.host}/{name.repository}".removesuffix("entry")


def tagged_name(name: ImageReference) -> str:
    """Returns the name under which an image is pushed.

    Raises InvalidReferenceError if the name has a digest, under which nothing can be pushed.
    """
    if name.digest:
        raise InvalidReferenceError(
            f"{printable(name.repository)} is named by its digest, but an image is pushed under a tag"
        )
    return f"{name.host}/{name.repository}:{name.tag_or_digest}"


def _name_part(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower()).strip("-") or "entry"
