""".dockerignore: the same files stay out as with the engine's own client."""

import sys
import time
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import Rejected
from orchestrator.intake import dockerignore
from orchestrator.intake.dockerignore import DockerIgnore

PARTS = st.text(st.sampled_from("ab.*?"), min_size=1, max_size=4)
NAMES = st.text(st.sampled_from("ab."), min_size=1, max_size=3)


def is_clean(part: str) -> bool:
    """Returns whether a part of a path is neither a folder's name for itself or its parent, nor has two stars."""
    return part not in {".", ".."} and "**" not in part


@pytest.mark.parametrize(
    ("lines", "ignored", "kept"),
    [
        ("*.log", ["a.log"], ["a/b.log", "log"]),
        ("**/*.log", ["a.log", "a/b/c.log"], ["a.logs"]),
        ("data", ["data", "data/a/b"], ["database", "a/data"]),
        ("/data/", ["data/a"], ["a/data"]),
        ("**", ["a", "a/b"], ["Dockerfile", ".dockerignore"]),
        ("*\n!keep\n!sub/keep", ["a", "sub/b"], ["keep", "keep/in", "sub/keep"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/c"], ["a/x", "b"]),
        ("# not\n\n  spaced  ", ["spaced"], ["# not"]),
        ("[a-c]?", ["ax", "cy"], ["dx", "a", "axx"]),
        ("[^a]", ["b"], ["a", "bb"]),
        ("\\*", ["*"], ["a"]),
        ("a*b*c", ["abc", "axxbyyc"], ["abcd", "ab"]),
        ("./x/../y", ["y"], ["x"]),
        ("!", [], ["a"]),
    ],
)
def test_patterns_mean_what_the_reference_says(lines, ignored, kept) -> None:
    """Stars, `**`, classes, escapes and exceptions, the last one that matches deciding."""
    found = DockerIgnore(lines)
    assert [name for name in ignored + kept if found(PurePosixPath(name))] == ignored


@pytest.mark.slow
@given(
    # The library differs from Go in stars beside other characters of a part, and in paths that are not clean.
    st.lists(st.tuples(st.booleans(), st.lists(PARTS.filter(is_clean), min_size=1, max_size=3)), max_size=4),
    st.lists(NAMES.filter(is_clean), min_size=1, max_size=4),
)
def test_it_agrees_with_the_engines_library(patterns, name) -> None:
    """The Python client of the engine decides the same for any patterns of stars and names."""
    reference = pytest.importorskip("docker.utils.build").PatternMatcher
    lines = [("!" if back else "") + "/".join(parts) for back, parts in patterns]
    assert DockerIgnore("\n".join(lines))(PurePosixPath(*name)) == reference(lines).matches("/".join(name))


def test_a_hostile_pattern_takes_no_time() -> None:
    """Patterns of many stars are decided at once."""
    begun = time.monotonic()
    assert not DockerIgnore("\n".join(["*a" * 40 + "b", "/".join(["**", "x"] * 60)]))(PurePosixPath(*["a" * 200] * 15))
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    "pattern", ["*" + "a" * 90 + "b", "*[" + "a" * 90 + "b]b", "*a" * 45 + "b", "**/" * 90 + "b", "**/a/" * 45 + "b"]
)
def test_no_step_is_taken_for_a_character(pattern) -> None:
    """Ten thousand files and 64 KiB of patterns would take hours; only parts of paths and of patterns count."""

    def calls(times: int) -> int:
        found, taken = DockerIgnore(pattern * times), []
        sys.setprofile(lambda _, event, __: taken.append(event))
        try:
            assert not found(PurePosixPath("a" * 200 * times))
        finally:
            sys.setprofile(None)
        return len(taken)

    assert calls(3) - calls(1) < 10


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("[a^]x", ["ax", "^x"], ["bx"]),
        ("[^^]", ["a"], ["^"]),
        ("[c-a]", [], ["a", "b", "c"]),
        ("[^c-a]", ["a", "b"], []),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\&&|~]", ["\\", "&", "|", "~"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a", ["[a"], ["a"]),
        ("a\\", ["a\\"], ["a"]),
        ("*a*", ["a", "bab"], ["b"]),
        ("a*a", ["aa", "aba"], ["a", "aab"]),
        ("*ab*ba", ["abba", "xabxba"], ["aba"]),
        ("a+(b)|c.$", ["a+(b)|c.$"], ["aab", "c."]),
        ("x/x", ["x/x", "x/x/x"], ["x"]),
        ("**/**/x", ["x", "a/x", "a/b/x"], ["a"]),
        ("x/**/**", ["x/y", "x"], ["a"]),
    ],
)
def test_odd_patterns(pattern, matched, others) -> None:
    """Classes, escapes and characters that regular expressions know stand for what they stand for in patterns."""
    found = DockerIgnore(pattern)
    assert [name for name in matched + others if found(PurePosixPath(name))] == matched


@pytest.mark.parametrize("text", ["a\n" * 501, "a" * 70_000])
def test_a_long_file_is_refused(tmp_path, text) -> None:
    """A file beyond its bounds is refused; none at all ignores nothing."""
    assert not dockerignore.read_dockerignore(tmp_path)(PurePosixPath("a"))
    (tmp_path / ".dockerignore").write_text(text)
    with pytest.raises(Rejected, match="shorten it"):
        dockerignore.read_dockerignore(tmp_path)
