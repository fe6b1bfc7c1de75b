"""Reads `.dockerignore`, which excludes files from a build, as the engine's own client reads it.

Patterns are those of Go's filepath.Match, with `**` for any number of folders; the last one that matches decides, and
`!` includes a file again. A pattern that matches a folder matches everything in it. Since strangers write patterns,
matching takes time in proportion to the pattern's length times the name's, whatever the pattern, and is left to regular
expressions without backtracking: a folder may have 10,000 files and 64 KiB of patterns.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.errors import Problem, Rejected

FILE_NAME = ".dockerignore"
MAX_BYTES = 64 * 1024
MAX_LINES = 500
_DOUBLE_STAR = "**"
_NEVER_IGNORED = frozenset({"Dockerfile", FILE_NAME})


@dataclass(frozen=True, slots=True)
class _Pattern:
    parts: tuple[re.Pattern[str] | None, ...]
    """Each part of the pattern; None for `**`, any number of folders, of which no two follow each other."""
    negated: bool


class DockerIgnore:
    """The patterns of one `.dockerignore` file."""

    def __init__(self, text: str) -> None:
        self._patterns = [found for line in text.split("\n") if (found := _pattern(line)) is not None]

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
    if cleaned in {"", "."}:
        return None
    parts: list[re.Pattern[str] | None] = []
    for part in cleaned.split("/"):
        if part != _DOUBLE_STAR:
            parts.append(_compiled(part))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return _Pattern(tuple(parts), back)


def _covers(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Returns whether a pattern matches a path or a folder above it."""
    reached = {0}  # the possible numbers of the pattern's parts that are used up so far
    for part in parts:
        reached = _skip_double_stars(pattern, reached)
        reached = {next_at for at in reached if at < len(pattern) for next_at in _next_positions(pattern[at], at, part)}
        if len(pattern) in _skip_double_stars(pattern, reached):
            return True
    return False


def _next_positions(expected: re.Pattern[str] | None, at: int, part: str) -> tuple[int, ...]:
    """Returns the position in the pattern after a part of a path, if that is what is expected at the position `at`."""
    if expected is None:
        return (at,)
    return (at + 1,) if expected.fullmatch(part) else ()


def _skip_double_stars(pattern: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    """Returns the positions in the pattern, and those that are reached if a `**` stands for no folder."""
    return reached | {at + 1 for at in reached if at < len(pattern) and pattern[at] is None}


def _compiled(part: str) -> re.Pattern[str]:
    """Returns one part of a pattern as a regular expression, which matches a name in time linear in both.

    What follows a star is searched for once, as early as it comes: an atomic group tries no later place.
    """
    first, *rest = _between_stars(part)
    *middle, last = rest or [""]
    text = first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + (f".*{last}" if rest else "")
    return re.compile(text, re.DOTALL)


def _between_stars(part: str) -> list[str]:
    """Returns the regular expressions of the pieces between the stars of a part, one more than there are stars."""
    pieces, at = [""], 0
    while at < len(part):
        length = 1
        if part[at] == "*":
            pieces.append("")
        elif part[at] == "?":
            pieces[-1] += "."
        elif part[at] == "\\" and at + 1 < len(part):
            pieces[-1] += re.escape(part[at + 1])
            length = 2
        elif part[at] == "[" and (end := part.find("]", at + 2)) > 0:
            pieces[-1] += _class(part[at + 1 : end])
            length = end + 1 - at
        else:
            pieces[-1] += re.escape(part[at])
        at += length
    return pieces


def _class(inside: str) -> str:
    """Returns the regular expression of a class of characters, of which `inside` is what stands in its brackets."""
    turned = inside.startswith("^")
    text = inside[1:] if turned else inside
    members, at = "", 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            if text[at] <= text[at + 2]:
                members += f"{re.escape(text[at])}-{re.escape(text[at + 2])}"
            at += 3
        else:
            members += re.escape(text[at])
            at += 1
    if not members:
        return "." if turned else "(?!)"
    return f"[^{members}]" if turned else f"[{members}]"
