"""What a registry says of an image."""

import pytest

from orchestrator.oci.manifests import UnusableImageError

from .fake_registry import AMD, INDEX, MANIFEST, RUN, Answer, dump, named

HEX = "ab" * 32


def test_an_image_is_described_by_its_manifest(registry, ask):
    """A tag's digest is the manifest's; the configuration and the layers' sizes come with it."""
    digest = registry.put("team/entry", "1", registry.image(RUN, layers=2))
    found = ask.resolve(named(registry), AMD)
    assert found.digest == digest
    assert found.sizes == (7, 7)
    assert found.configuration.to_inspect_format(digest, 14)["Config"] == RUN
    assert ask.resolve(named(registry, f"team/entry@{digest}"), AMD) == found


def test_the_platform_is_chosen_from_an_index(registry, ask):
    """The identity is the digest of the platform's own manifest; attestations and other platforms are passed over."""
    digests = {
        arch: registry.put("team/entry", arch, registry.image(RUN, architecture=arch)) for arch in ("amd64", "arm64")
    }
    entries = [
        {"os": "unknown", "architecture": "unknown"},
        {"os": "linux", "architecture": "arm64", "variant": "v8"},
        {"os": "linux", "architecture": "amd64", "variant": "v3"},
        {"os": "linux", "architecture": "amd64"},
    ]
    wanted = ["arm64", "arm64", "arm64", "amd64"]
    sizes = {arch: len(registry.manifests["team/entry", arch][1]) for arch in digests}
    manifests = [
        {"mediaType": MANIFEST, "digest": digests[arch], "size": sizes[arch], "platform": entry}
        for entry, arch in zip(entries, wanted, strict=True)
    ]
    registry.put("team/entry", "1", {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, INDEX)
    assert ask.resolve(named(registry), AMD).digest == digests["amd64"]
    assert ask.resolve(named(registry), "linux/arm64").digest == digests["arm64"]
    assert ask.resolve(named(registry), "linux/arm64/v8").configuration.architecture == "arm64"
    with pytest.raises(UnusableImageError, match=r"linux/amd64.*linux/s390x is needed here"):
        ask.resolve(named(registry), "linux/s390x")


def test_indexes_do_not_go_on_for_ever(registry, ask):
    """A few indexes may stand on top of each other; more are refused."""
    document, kind = registry.image(RUN), MANIFEST
    for depth in range(6):
        digest = registry.put("team/entry", f"d{depth}", document, kind)
        size = len(registry.manifests["team/entry", digest][1])
        entry = {
            "mediaType": kind,
            "digest": digest,
            "size": size,
            "platform": {"os": "linux", "architecture": "amd64"},
        }
        document, kind = {"schemaVersion": 2, "manifests": [entry]}, INDEX
    assert ask.resolve(named(registry, "team/entry:d3"), AMD).sizes == (7,)
    with pytest.raises(UnusableImageError, match="more than 3 indexes"):
        ask.resolve(named(registry, "team/entry:d5"), AMD)


def test_a_registry_that_answers_with_itself_is_refused(registry, ask):
    """An index that is given for the digest that it names cannot be: its digest is another one."""
    entry = {
        "mediaType": INDEX,
        "digest": f"sha256:{HEX}",
        "size": 100,
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    loop = dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})
    registry.odd = lambda asked: Answer(200, loop, {"Content-Type": INDEX}) if "/manifests/" in asked.path else None
    with pytest.raises(UnusableImageError):
        ask.resolve(named(registry), AMD)
    assert len(registry.asked) == 2


@pytest.mark.parametrize("kind", ["manifests", "blobs"])
def test_other_bytes_than_were_named_are_refused(kind, registry, ask):
    """A registry that gives something else for a digest is found out."""
    digest = registry.put("team/entry", "1", registry.image(RUN))
    other = dump(registry.image({**RUN, "Cmd": ["evil.py"]}))

    def swap(asked):
        return Answer(200, other, {"Content-Type": MANIFEST}) if f"/{kind}/sha256" in asked.path else None

    registry.odd = swap
    with pytest.raises(UnusableImageError, match=r"in place of|its descriptor says"):
        ask.resolve(named(registry, f"team/entry@{digest}"), AMD)


def test_a_registry_that_contradicts_itself_is_refused(registry, ask):
    """A tag's document has the digest that the registry says it has."""
    data = dump(registry.image(RUN))
    headers = {"Content-Type": MANIFEST, "Docker-Content-Digest": f"sha256:{HEX}"}
    registry.odd = lambda asked: Answer(200, data, headers) if "/manifests/" in asked.path else None
    with pytest.raises(UnusableImageError, match="in place of"):
        ask.resolve(named(registry), AMD)
