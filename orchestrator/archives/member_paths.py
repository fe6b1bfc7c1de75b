"""Checks the names of an archive's members: converts them to paths inside it, or refuses them."""

import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import PurePosixPath

MAX_PATH_LENGTH = 240
"""The longest path, in characters: every file system accepts it, also below another folder."""
MAX_DEPTH = 16
MAX_PART_BYTES = 255
"""The longest name in a path, in bytes, as on most file systems."""
_DRIVE = re.compile(r"[A-Za-z]:")


class PathRefused(Exception):
    """A name that cannot be used; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


def safe_path(raw: bytes) -> PurePosixPath:
    """Returns the relative path of a member's name, an empty path for the top folder itself. Raises PathRefused."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise PathRefused("a name that is not UTF-8", "use plain letters in names") from None
    if not text.isprintable():
        raise PathRefused("a name with characters that cannot be printed", "use plain letters in names")
    if "\\" in text:
        raise PathRefused("a name with a backslash", "use / between folders")
    if text.startswith("/") or _DRIVE.match(text):
        raise PathRefused("an absolute name", "pack the folder from within, with relative names")
    parts = [part for part in text.removesuffix("/").split("/") if part != "."]
    if ".." in parts:
        raise PathRefused("a name that leads out of its folder", "pack the folder from within, with relative names")
    if "" in parts and text not in {"", "./"}:
        raise PathRefused("a name with an empty part", "write folder/file")
    path = PurePosixPath(*[part for part in parts if part])
    if (
        len(text) > MAX_PATH_LENGTH
        or len(text.encode()) > 4 * MAX_PATH_LENGTH
        or any(len(part.encode()) > MAX_PART_BYTES for part in parts)
    ):
        raise PathRefused(f"a name of {len(text)} characters, at most {MAX_PATH_LENGTH}", "shorten it")
    if len(path.parts) > MAX_DEPTH:
        raise PathRefused(f"{len(path.parts)} folders deep, at most {MAX_DEPTH}", "flatten it")
    return path


@dataclass
class UsedPaths:
    """The paths of an archive so far. It refuses duplicates, and paths that a file system may consider equal."""

    _spellings: dict[str, str] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)
    _folders: set[str] = field(default_factory=set)

    def add(self, path: PurePosixPath, *, folder: bool) -> None:
        """Adds a path and its parents. Raises PathRefused for a duplicate, also one with other case or accents."""
        above = [str(PurePosixPath(*path.parts[:depth])) for depth in range(1, len(path.parts))]
        for name in (*above, str(path)):
            spelt = self._spellings.setdefault(_folded(name), name)
            if spelt != name:
                raise PathRefused(f"a name that differs from {spelt!r} in case or accents only", "rename one of them")
        if str(path) in self._files or (str(path) in self._folders and not folder):
            raise PathRefused("a name that is there already", "pack each file once")
        if any(name in self._files for name in above):
            raise PathRefused("a file inside a file", "rename one of them")
        self._folders.update(above)
        (self._folders if folder else self._files).add(str(path))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
