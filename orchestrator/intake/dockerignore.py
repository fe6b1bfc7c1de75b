"""Reads `.dockerignore`, which excludes files from a build, as the engine's own client reads it.

Patterns are those of Go's filepath.Match, with `**` for any number of folders; the last one that matches decides, and
`!` includes a file again. A pattern that matches a folder matches everything in it. Since strangers write patterns,
matching takes time in proportion to the pattern's length times the name's, whatever the pattern.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.errors import Problem, Rejected

FILE_NAME = ".dockerignore"
MAX_BYTES = 64 * 1024
MAX_LINES = 500
_NEVER_IGNORED = frozenset({"Dockerfile", FILE_NAME})


@dataclass(frozen=True, slots=True)
class _Pattern:
    parts: tuple[str, ...]
    negated: bool


class DockerIgnore:
    """The patterns of one `.dockerignore` file."""

    def __init__(self, text: str) -> None:
        self._patterns = [found for line in text.splitlines() if (found := _pattern(line)) is not None]

    def __call__(self, path: PurePosixPath) -> bool:
        """Returns whether a relative path is excluded from the build. The Dockerfile and this file never are."""
        ignored = False
        for pattern in self._patterns:
            if ignored is pattern.negated and _covers(pattern.parts, path.parts):
                ignored = not pattern.negated
        return ignored and str(path) not in _NEVER_IGNORED


def read_dockerignore(folder: Path) -> DockerIgnore:
    """Returns the patterns of a folder's `.dockerignore`, none if there is no such file. Raises Rejected."""
    path = folder / FILE_NAME
    if path.is_symlink() or not path.is_file():
        return DockerIgnore("")
    data = path.read_bytes()[: MAX_BYTES + 1]
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(data) > MAX_BYTES or text.count("\n") > MAX_LINES:
        problem = f"more than {MAX_BYTES} bytes or {MAX_LINES} lines"
        raise Rejected(f"folder {folder}", [Problem(FILE_NAME, problem, "shorten it")])
    return DockerIgnore(text)


def _pattern(line: str) -> _Pattern | None:
    if line.startswith("#"):
        return None
    text = line.strip()
    back = text.startswith("!")
    text = text.removeprefix("!").strip()
    if not text:
        return None
    cleaned = posixpath.normpath(text).lstrip("/")
    return _Pattern(tuple(cleaned.split("/")), back) if cleaned not in {"", "."} else None


def _covers(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Returns whether a pattern matches a path or a folder above it."""
    reached = {0}  # the possible numbers of the pattern's parts that are used up so far
    for part in parts:
        reached = _skip_double_stars(pattern, reached)
        reached = {
            next_at
            for at in reached
            if at < len(pattern)
            for next_at in ((at,) if pattern[at] == "**" else (at + 1,) if _matches(pattern[at], part) else ())
        }
        if len(pattern) in _skip_double_stars(pattern, reached):
            return True
    return False


def _skip_double_stars(pattern: Sequence[str], reached: set[int]) -> set[int]:
    """Returns the positions in the pattern, and those that are reached if a `**` stands for no folder."""
    positions = set(reached)
    for at in sorted(reached):
        step = at
        while step < len(pattern) and pattern[step] == "**":
            step += 1
            positions.add(step)
    return positions


def _matches(pattern: str, name: str) -> bool:
    """Returns whether one part of a pattern matches one name."""
    at = position = 0
    star, retry = -1, 0
    while at < len(name):
        length = _matched_length(pattern, position, name[at])
        if length:
            position, at = position + length, at + 1
        elif position < len(pattern) and pattern[position] == "*":
            star, retry = position, at
            position += 1
        elif star >= 0:
            retry += 1
            position, at = star + 1, retry
        else:
            return False
    return not pattern[position:].strip("*")


def _matched_length(pattern: str, at: int, character: str) -> int:
    """Returns the length of the pattern's piece at `at` if it matches one character; 0 if not, or if it is a star."""
    if at >= len(pattern) or pattern[at] == "*":
        return 0
    if pattern[at] == "?":
        return 1
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return 2 if pattern[at + 1] == character else 0
    if pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
        return end + 1 - at if _in_class(pattern[at + 1 : end], character) else 0
    return 1 if pattern[at] == character else 0


def _in_class(inside: str, character: str) -> bool:
    turned = inside.startswith("^")
    text = inside[1:] if turned else inside
    matched, at = False, 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            matched = matched or text[at] <= character <= text[at + 2]
            at += 3
        else:
            matched = matched or text[at] == character
            at += 1
    return matched is not turned
