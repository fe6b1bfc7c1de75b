"""Manifests, indexes and configurations that strangers wrote."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.oci import manifests
from orchestrator.oci.manifests import UnusableImageError

from .fake_registry import AMD, CONFIG, DOCKER, INDEX, MANIFEST, RUN, dump, named, sha

HEX = "ab" * 32


def hostile(image: dict) -> dict[str, bytes | dict]:
    """Returns manifests that are refused, each by what is wrong with it."""
    with_url = {**image["layers"][0], "urls": ["http://169.254.169.254/x"]}
    foreign = {**image["layers"][0], "mediaType": f"{DOCKER}image.rootfs.foreign.diff.tar.gzip"}
    text = json.dumps(image)
    return {
        "not plain JSON": b"{",
        "not plain JSON: .*maximum recursion": b'{"a":' + b"[" * 500_000,
        "not plain JSON: .*utf-8": b"\xff\xfe{",
        "not plain JSON: .*surrogates": b'{"a":"\\ud800"}',
        "a key occurs twice": text[:-1].encode() + b',"layers":[]}',
        "'Layers' is another spelling of a standard key": {**image, "Layers": []},
        "'MediaType' is another spelling of a standard key": {**image, "config": {**image["config"], "MediaType": "x"}},
        "not a JSON object": b"[]",
        "of version 1": {**image, "schemaVersion": 1},
        "schemaVersion": {**image, "schemaVersion": "2"},
        "index and manifest at once": {**image, "manifests": []},
        "not an image but": {**image, "mediaType": "application/vnd.cncf.helm"},
        "its configuration is": {
            **image,
            "config": {**image["config"], "mediaType": "application/vnd.oci.empty.v1+json"},
        },
        "fetched from elsewhere": {**image, "layers": [with_url]},
        "a layer of type": {**image, "layers": [foreign]},
        "layers.0..digest": {**image, "layers": [{**image["layers"][0], "digest": "sha256:../../x"}]},
        "config.size": {**image, "config": {**image["config"], "size": -1}},
        "a configuration of 1099511627776 bytes": {**image, "config": {**image["config"], "size": 2**40}},
        "but its descriptor says 5": {**image, "config": {**image["config"], "size": 5}},
        "more than 1048576 bytes": {**image, "annotations": {"a": "x" * 2**20}},
        "it names 1 layers": {**image, "layers": []},
        "a list of 1001 items is too long": {**image, "layers": image["layers"] * 1001},
    }


CASES = sorted(hostile({"config": {}, "layers": [{}]}))


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_manifest_is_refused(case, registry, ask):
    """Each is refused with what is wrong with it, and none is an accident of ours."""
    registry.put("team/entry", "1", hostile(registry.image(RUN))[case], "application/json")
    with pytest.raises(UnusableImageError, match=case):
        ask.resolve(named(registry), AMD)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (b"{}", "architecture"),
        (b"\x1f\x8b", "not plain JSON"),
        (b"[" * 900_000, "not plain JSON"),
        (
            dump({"architecture": "amd64", "os": "linux", "config": [], "rootfs": {"type": "layers", "diff_ids": []}}),
            "config",
        ),
        ({**RUN, "entrypoint": ["/bin/evil"]}, "'entrypoint' is another spelling of a standard key"),
        ({**RUN, "volume\u017f": {"/x": {}}}, "is another spelling of a standard key"),
        ({"Cmd": "python3 player.py"}, "config.Cmd"),
        ({"Env": [1]}, "config.Env.0"),
        ({"Labels": {"a": 1}}, "config.Labels.a"),
        ({"Healthcheck": {"test": ["CMD", "x"]}}, "'test' is another spelling of a standard key"),
    ],
)
def test_a_hostile_configuration_is_refused(config, wanted, registry, ask):
    """What is of another type, or spelt so that the nodes would read something else, is refused."""
    registry.put("team/entry", "1", registry.image(config))
    with pytest.raises(UnusableImageError, match=wanted):
        ask.resolve(named(registry), AMD)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "os",
                    "Config",
                    "config",
                    "layers",
                    "size",
                    "digest",
                    "mediaType",
                    "manifests",
                    "platform",
                    "urls",
                    "rootfs",
                    "diff_ids",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(JSON, st.sampled_from([MANIFEST, INDEX, "", "text/html"]))
def test_any_document_is_read_or_refused(document, kind):
    """Whatever comes as a manifest or a configuration is a value of ours or UnusableImageError, nothing else."""
    for read in (
        lambda data: manifests.parse_manifest(data, kind),
        lambda data: manifests.parse_configuration(data, 1),
    ):
        try:
            read(dump(document))
        except UnusableImageError as error:
            problem = error.problem
        else:
            continue
        assert problem.what
        assert problem.what.isprintable()


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_a_manifest_with_something_else_in_it_is_read_or_refused(data):
    """One part of a good manifest or configuration replaced by anything is refused, or is what it was to the nodes."""
    digest = {"digest": f"sha256:{HEX}", "size": 3}
    good = {
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG, **digest},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **digest}],
    }
    files = {"type": "layers", "diff_ids": [f"sha256:{HEX}"]}
    whole = {"os": "linux", "architecture": "amd64", "config": {**RUN, "Env": ["A=1"]}, "rootfs": files}
    for document, read in (
        (good, lambda made: manifests.parse_manifest(made, "")),
        (whole, lambda made: manifests.parse_configuration(made, 1)),
    ):
        place = data.draw(st.sampled_from(sorted(document)))
        inner = document[place]
        if isinstance(inner, dict) and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(sorted(inner)))
            document = {**document, place: {**inner, key: data.draw(JSON)}}  # noqa: PLW2901
        else:
            document = {**document, place: data.draw(JSON)}  # noqa: PLW2901
        try:
            found = read(dump(document))
        except UnusableImageError:
            continue
        if isinstance(found, manifests.ImageConfiguration):
            found.to_inspect_format("sha256:x", 1)


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    """Bytes that are no JSON at all are refused."""
    with pytest.raises(UnusableImageError):
        manifests.parse_manifest(data, "")
    with pytest.raises(UnusableImageError, match="in place of"):
        manifests.verify_digest(data, sha(data + b"x"))


def test_manifest_and_registry_have_to_agree():
    """A document that calls itself something else than its registry does is refused (CVE-2021-41190)."""
    good = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {}, "layers": []}
    with pytest.raises(UnusableImageError, match="calls itself"):
        manifests.parse_manifest(dump(good), INDEX)
    with pytest.raises(UnusableImageError, match="calls itself"):
        manifests.parse_manifest(dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}), MANIFEST)


def test_what_docker_writes_is_taken_too():
    """Docker's own types mean the same as those of the Open Container Initiative."""
    digest = {"digest": f"sha256:{HEX}", "size": 3}
    image = {
        "schemaVersion": 2,
        "mediaType": f"{DOCKER}distribution.manifest.v2+json",
        "config": {"mediaType": f"{DOCKER}container.image.v1+json", **digest},
        "layers": [{"mediaType": f"{DOCKER}image.rootfs.diff.tar.gzip", **digest}],
    }
    found = manifests.parse_manifest(dump(image), f"{DOCKER}distribution.manifest.v2+json")
    assert isinstance(found, manifests.ImageManifest)
    assert [layer.size for layer in found.layers] == [3]
    index = {"schemaVersion": 2, "mediaType": f"{DOCKER}distribution.manifest.list.v2+json", "manifests": []}
    with pytest.raises(UnusableImageError, match=r"made for no platform, but linux/amd64 is needed here"):
        manifests.select_platform(manifests.parse_manifest(dump(index), ""), "linux/amd64")
