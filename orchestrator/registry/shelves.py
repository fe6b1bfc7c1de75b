"""Where a season's received images lie in the organizers' registry: names that follow from what was received.

A desk receives an image on an engine, and its identity is the digest of its configuration. A cluster's nodes pull by
the digest of a manifest, and a manifest names that configuration: so the identity on record is proved by whoever looks
the image up here, and the name itself need not be trusted.
"""

import re

from orchestrator.domain.text import printable
from orchestrator.registry.references import Name, NoNameError, parse

NO_REGISTRY = "none"
"""What `cluster.registry` is where images were loaded onto the nodes."""
_SHOWN = 16
_OTHER = re.compile(r"[^a-z0-9]+")


def shelf(contest: str, submission: str, identity: str) -> str:
    """Returns the name, without its registry, under which a received image is pushed: `cup/red:0123456789abcdef`.

    Names that differ in `_` and `-` alone share a repository; the tag, from the identity, tells their images apart.
    """
    return f"{_part(contest)}/{_part(submission)}:{identity.removeprefix('sha256:')[:_SHOWN]}"


def below(registry: str) -> str:
    """Returns the beginning of every name in the registry of the settings, with its slash.

    Raises:
        NoNameError: `cluster.registry` is empty, `none`, or no registry.
    """
    if registry == NO_REGISTRY:
        raise NoNameError("cluster.registry is none, so images were loaded onto the nodes and lie nowhere else")
    if not registry:
        raise NoNameError("cluster.registry is not set, so there is no place for images")
    name = parse("entry", registry.rstrip("/"))
    if name.host == registry.rstrip("/"):
        return f"{name.host}/"
    return f"{name.host}/{name.repository}".removesuffix("entry")


def tagged(name: Name) -> str:
    """Returns an image's name as it is pushed. Raises NoNameError where it says a digest: nothing is put there."""
    if name.digest:
        raise NoNameError(f"{printable(name.repository)} is named by its digest, and is pushed under a tag")
    return f"{name.host}/{name.repository}:{name.wanted}"


def _part(text: str) -> str:
    return _OTHER.sub("-", text.lower()).strip("-") or "entry"
