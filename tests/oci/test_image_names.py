"""Where received images lie: names that every registry takes, told apart by what was received."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.intake.manifest import is_slug
from orchestrator.oci.image_names import received_image_name, registry_prefix, tagged_name
from orchestrator.oci.references import InvalidReferenceError, parse_reference

ONE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_a_name_says_contest_submission_and_image():
    """The tag is the beginning of the identity."""
    assert received_image_name("cup", "red", ONE) == "cup/red:1111111111111111"


@given(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True))
def test_every_name_of_a_submission_makes_one_that_registries_take(name):
    """Names may end with `-` and have `___` in them, which no repository may; another image is always another name."""
    assert is_slug(name)
    made = parse_reference(f"registry.example:5000/teams/{received_image_name(name, name, ONE)}")
    assert made.repository.startswith("teams/")
    assert made.tag == "1" * 16
    assert received_image_name(name, name, ONE) != received_image_name(name, name, OTHER)


@pytest.mark.parametrize(
    ("registry", "beginning"),
    [
        ("registry.example.org/teams", "registry.example.org/teams/"),
        ("registry.example.org/teams/", "registry.example.org/teams/"),
        ("127.0.0.1:5000", "127.0.0.1:5000/"),
        ("docker.io/cup", "docker.io/cup/"),
        ("index.docker.io/cup", "docker.io/cup/"),
        ("docker.io", "docker.io/"),
    ],
)
def test_every_name_in_a_registry_begins_alike(registry, beginning):
    """With a slash, and in the one spelling that names have."""
    assert registry_prefix(registry) == beginning
    place = parse_reference(f"{beginning}{received_image_name('cup', 'red', ONE)}")
    assert tagged_name(place) == f"{beginning}cup/red:1111111111111111"


@pytest.mark.parametrize(
    ("registry", "why"), [("none", "are on the nodes only"), ("", "is not set"), ("teams", "is not a registry")]
)
def test_without_a_registry_there_is_no_place(registry, why):
    """Each says why."""
    with pytest.raises(InvalidReferenceError, match=why):
        registry_prefix(registry)


def test_nothing_is_pushed_under_a_digest():
    """A digest is made by pushing; who names one has pushed already. Without a tag it is `latest`."""
    with pytest.raises(InvalidReferenceError, match="by its digest"):
        tagged_name(parse_reference(f"registry.example/red@{ONE}"))
    assert tagged_name(parse_reference("registry.example/red")) == "registry.example/red:latest"
