"""What a workshop owes where images go out: an engine's image in a registry, under one name, with one login."""

import io
import secrets
import tarfile
from contextlib import suppress

import pytest
from docker.errors import APIError

from orchestrator.errors import BackendUnavailable, UsageError
from orchestrator.oci.references import parse_reference
from orchestrator.oci.resolver import ImageResolver
from tests.oci.conftest import registry, start
from tests.oci.fake_registry import AMD, Answer

__all__ = ["registry", "start"]
pytestmark = pytest.mark.parametrize(
    "backend", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True, scope="module"
)


@pytest.fixture
def workshop(backend):
    """The backend's workshop."""
    return backend.image_store()


@pytest.fixture
def image(engine, registry):
    """The id of a small image of its own; afterwards it is gone, whatever it was called."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(secrets.token_hex(8)))
    tag = f"sparring-test/push-{secrets.token_hex(4)}"
    engine.api.import_image_from_data(packed.getvalue(), repository=tag, tag="1", changes=['CMD ["x"]'])
    identity = engine.images.get(f"{tag}:1").id
    yield identity
    with suppress(APIError):
        engine.images.remove(identity, force=True)


def test_an_image_is_pushed_by_its_id(workshop, engine, image, registry):
    """It lies there with its configuration, and the engine knows it by the name and by the manifest's digest."""
    name = f"{registry.host}/cup/red:1"
    workshop.push(image, name, None)
    found = ImageResolver([registry.host]).resolve(parse_reference(name), AMD)
    assert image in found.identities
    kept = engine.images.get(image).attrs
    assert name in kept["RepoTags"]
    assert f"{registry.host}/cup/red@{found.digest}" in kept["RepoDigests"]
    workshop.push(image, name, None)
    assert ImageResolver([registry.host]).resolve(parse_reference(name), AMD) == found


def test_the_login_is_the_given_one(workshop, image, registry, monkeypatch, tmp_path):
    """With it the registry takes the image, without it it does not; the operator's own file is not looked at."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    registry.users = {"me": "hunter2"}
    name = f"{registry.host}/cup/red:1"
    for login, who in ((None, "without credentials"), (("me", "wrong"), "with the credentials")):
        with pytest.raises(UsageError, match=f"{who}.*docker login {registry.host}") as caught:
            workshop.push(image, name, login)
        assert "wrong" not in str(caught.value)
    workshop.push(image, name, ("me", "hunter2"))
    assert registry.manifests


def test_a_registry_that_fails_is_ours(workshop, image, registry, start):
    """Away, or broken: nothing is anybody's fault but ours."""
    registry.odd = lambda asked: Answer(400, b"{}") if asked.path.endswith("/uploads/") else None
    with pytest.raises(BackendUnavailable, match=f"pushing {registry.host}/cup/red:1"):
        workshop.push(image, f"{registry.host}/cup/red:1", None)
    with pytest.raises(BackendUnavailable, match=r"reaches 127\.0\.0\.1:1"):
        workshop.push(image, "127.0.0.1:1/cup/red:1", None)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("sparring-test/there-is-none:1", "127.0.0.1:1/x:1"),
        ("a b", "127.0.0.1:1/x:1"),
        ("sparring-test/there-is-none:1", "x:1/../y?z"),
        ("sparring-test/there-is-none:1", "127.0.0.1:1/x"),
    ],
)
def test_what_is_no_image_and_no_name_is_not_asked_for(workshop, image, name):
    """An image that is not here, and texts that are no names."""
    with pytest.raises(UsageError, match=r"cannot be pushed|has no image"):
        workshop.push(image, name, None)
