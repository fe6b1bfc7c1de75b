"""Images' names, read as the nodes read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.oci.references import InvalidReferenceError, parse_reference

HEX = "ab" * 32


@pytest.mark.parametrize(
    ("text", "prefix", "wanted"),
    [
        ("entry", "", ("docker.io", "library/entry", "", "")),
        ("team/entry:1", "", ("docker.io", "team/entry", "1", "")),
        ("index.docker.io/entry", "", ("docker.io", "library/entry", "", "")),
        ("localhost/entry", "", ("localhost", "entry", "", "")),
        ("h:5000/a/b/c:t", "", ("h:5000", "a/b/c", "t", "")),
        ("r.example/a__b/c-d--e.f:T_1.x", "", ("r.example", "a__b/c-d--e.f", "T_1.x", "")),
        (f"r.example/a:t@sha256:{HEX}", "", ("r.example", "a", "t", f"sha256:{HEX}")),
        ("team/entry:1", "r.example/sub", ("r.example", "sub/team/entry", "1", "")),
        ("other.example/x", "r.example/sub", ("other.example", "x", "", "")),
    ],
)
def test_a_name_is_read_as_the_nodes_read_it(text, prefix, wanted):
    """Registry, repository, tag and digest are found by the reference implementation's rules."""
    name = parse_reference(text, prefix)
    assert (name.host, name.repository, name.tag, name.digest) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "a b", "A", "a/../b", "../a", "a//b", "a?x=1", "a#b", "a:", "a@sha256:12", "a@sha512:" + HEX, f"sha256:{HEX}",
     "a\n", "h:5000/a:b:c", "user@h.example/a", "h.example:999999/a", "-a", "a/", "h.example/", "x" * 300, "a:é", "a/é",
     "http://h.example/a", "h.example/%2e%2e/a"],
)  # fmt: skip
def test_what_is_no_name_is_refused(text):
    """Nothing else than the grammar goes into a request."""
    with pytest.raises(InvalidReferenceError):
        parse_reference(text)


def test_a_prefix_is_a_registry():
    """A prefix without a registry would send everybody to docker.io."""
    with pytest.raises(InvalidReferenceError, match="not a registry"):
        parse_reference("entry", "teams/x")


@given(st.text(max_size=40), st.sampled_from(["", "r.example/x"]))
def test_any_text_is_a_name_or_none(text, prefix):
    """A name that is taken is of the grammar in all its parts, and reads the same again."""
    try:
        name = parse_reference(text, prefix)
    except InvalidReferenceError:
        return
    again = parse_reference(name.pull_name(f"sha256:{HEX}"))
    assert (again.host, again.repository) == (name.host, name.repository)
    assert not set(name.host + name.repository) & set(" \n\r\t?#%\\@")
    assert ".." not in name.repository.split("/")
