"""Makes safe file names from names that people chose."""

import re
import unicodedata
from collections.abc import Iterable

MAX_LENGTH = 48
_RESERVED_NAMES = re.compile(r"con|prn|aux|nul|com\d|lpt\d|index")
"""Names that some systems reserve for devices, and "index", which web servers treat specially."""


def unique_file_names(names: Iterable[str], other: str) -> dict[str, str]:
    """Returns a unique file name of a-z, 0-9 and hyphens for each name.

    Of names with the same plain form, the first keeps it and the others get a number, so adding names changes no file
    name. `other` is the plain form of a name without any of these characters.
    """
    file_names: dict[str, str] = {}
    used: set[str] = set()
    for name in dict.fromkeys(names):
        plain = _plain_name(name) or other
        free, number = plain, 1
        while free in used:
            number += 1
            free = f"{plain}-{number}"
        used.add(free)
        file_names[name] = free
    return file_names


def _plain_name(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name[: 4 * MAX_LENGTH]).encode("ascii", "ignore").decode("ascii").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:MAX_LENGTH].strip("-")
    return f"the-{plain}" if _RESERVED_NAMES.fullmatch(plain) else plain
