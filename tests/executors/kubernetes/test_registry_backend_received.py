"""What a desk received on an engine plays on a cluster under the identity on its receipt, or does not play."""

import pytest

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.errors import Rejected
from orchestrator.executors.kubernetes import pod_manifest
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.oci.image_names import received_image_name
from orchestrator.sandboxes.base import ImageSource
from tests.oci.fake_registry import AMD, INDEX, RUN

from .rendering import attempt

OTHER = "sha256:" + "5" * 64


@pytest.fixture
def backend(registry, ask):
    """The backend of a cluster whose images lie in that registry."""
    return RegistryBackend(ClusterSettings(registry=f"{registry.host}/season"), registries=ask)


def received(identity: str) -> ImageSource:
    """Returns what a round of a season asks for."""
    return ImageSource(image=identity, registry_name=received_image_name("cup", "red", identity))


def put(registry, manifest, identity: str) -> str:
    """Puts a manifest where what was received as `identity` has to lie; returns its digest."""
    return registry.put("season/cup/red", identity.removeprefix("sha256:")[:16], manifest)


def problem(backend, source: ImageSource):
    """Returns the one reason why it is refused."""
    with pytest.raises(Rejected) as caught:
        backend.admit(source)
    [found] = caught.value.problems
    return found


def test_the_identity_is_the_received_one_and_nodes_pull_by_manifest(registry, backend):
    """The digest of the configuration is what was received; the pod's reference has the digest of the manifest."""
    manifest = registry.playable({**RUN, "Env": ["LD_PRELOAD=/x.so"]})
    identity = manifest["config"]["digest"]
    pulled = put(registry, manifest, identity)
    image = backend.admit(received(identity))
    assert image.digest == identity != pulled
    assert image.reference == f"{registry.host}/season/cup/red@{pulled}"
    assert (image.command, image.unset_variables) == (("python3", "player.py"), ("LD_PRELOAD",))
    made = pod_manifest.pod_template(attempt(), image, SandboxPolicy(), ClusterSettings())
    [player] = [each for each in made["spec"]["containers"] if each["name"] == "player"]
    assert player["image"] == image.reference


@pytest.mark.parametrize("kept", ["manifest", "index"])
def test_an_engine_that_keeps_images_as_a_registry_does(registry, backend, kept):
    """Its id of an image is the digest of the manifest, or of the index above: that is proved as well."""
    manifest = registry.playable(RUN)
    digest = registry.put("season/cup/red", "x", manifest)
    described = {
        "mediaType": manifest["mediaType"],
        "digest": digest,
        "size": len(registry.manifests["season/cup/red", digest][1]),
    }
    system, machine = AMD.split("/")
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**described, "platform": {"os": system, "architecture": machine}}],
    }
    above = registry.put("season/cup/red", "y", index, INDEX)
    identity = digest if kept == "manifest" else above
    registry.manifests["season/cup/red", identity[7:23]] = registry.manifests["season/cup/red", identity]
    image = backend.admit(received(identity))
    assert (image.digest, image.reference) == (identity, f"{registry.host}/season/cup/red@{digest}")


def test_what_was_not_pushed_is_named_with_the_command(backend):
    """A registry without it: the remedy is one command."""
    found = problem(backend, received(OTHER))
    assert "cup/red 5555555555555555 (404)" in found.what
    assert "sparring cluster push DIR" in found.remedy


def test_another_image_in_its_place_does_not_play(registry, backend):
    """Whoever can write to the registry cannot change what was received: both identities are said."""
    manifest = registry.playable(RUN)
    put(registry, manifest, OTHER)
    found = problem(backend, received(OTHER))
    assert OTHER in found.what
    assert manifest["config"]["digest"] in found.what
    assert "sparring cluster push DIR" in found.remedy


def test_what_an_image_may_not_say_is_refused_here_too(registry, backend):
    """The desk judged it, and the registry's word is judged again."""
    manifest = registry.playable({**RUN, "Volumes": {"/data": {}}})
    put(registry, manifest, manifest["config"]["digest"])
    assert problem(backend, received(manifest["config"]["digest"])).place == "VOLUME"


@pytest.mark.parametrize(("registry_setting", "why"), [("none", "on the nodes only"), ("", "not set")])
def test_without_a_registry_received_images_have_no_place(registry_setting, why, ask):
    """A cluster whose images are loaded by hand, or whose registry nobody named: what to set is said."""
    backend = RegistryBackend(ClusterSettings(registry=registry_setting), registries=ask)
    found = problem(backend, received(OTHER))
    assert why in found.what
    assert "set cluster.registry" in found.remedy
