"""Names of files that are made of names of people's choice."""

import re
import unicodedata
from collections.abc import Iterable

MAX_LENGTH = 48
_RESERVED_NAMES = re.compile(r"con|prn|aux|nul|com\d|lpt\d|index")
"""What some systems keep for devices, and servers for themselves."""


def unique_file_names(names: Iterable[str], other: str) -> dict[str, str]:
    """Returns a file name for each name: a-z, 0-9 and hyphens, none twice, whatever the names are.

    Who comes first keeps the plain one, so the names of files stay while names are added. `other` stands for a name
    without any such letter.
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
