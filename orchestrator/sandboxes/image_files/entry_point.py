"""Whether what an image says is started can be started: the program is there, may be run, and is for this machine.

A player whose program is missing ends at once, with words of the runtime that name neither the cause nor the remedy:
`exec /player failed: No such file or directory` is also what a missing interpreter gives.
"""

import posixpath
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.sandboxes.image_files.mount_points import FileKind

HEAD_BYTES = 4096
"""Bytes of a program that are looked at."""
_NOT_IN_IMAGE = "is not in the image"
_MAX_LINKS = 40
"""So many symbolic links are followed one after another, as the kernel does."""
_MAX_SEARCHED = 100
"""So many folders of PATH are searched; images have about ten."""
_EXECUTABLE = 0o001
"""A sandbox's user is nobody's owner and in nobody's group."""
_MACHINES = {3: "386", 40: "arm", 62: "amd64", 183: "arm64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
"""ELF's numbers for what images call architectures."""
_INTERPRETER = 3
_LITTLE, _64_BITS = 1, 2


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What there is at a path: `mode` has the permission bits, `target` where a symbolic link leads."""

    kind: FileKind
    mode: int
    target: str = ""
    size: int = 0


class ImageFiles(Protocol):
    """An image's files. Paths are absolute; links in the folders above are followed."""

    def file_entry(self, path: str) -> FileEntry | None:
        """Returns what there is, None for nothing."""
        ...

    def read_head(self, path: str, count: int) -> bytes:
        """Returns a file's first bytes."""
        ...


def entry_point_problems(
    files: ImageFiles, command: Sequence[str], folder: str, search_path: str, architecture: str
) -> list[Problem]:
    """Returns why a command cannot be started: in `folder`, with the PATH `search_path`, on this architecture."""
    program = command[0]
    if "/" in program:
        candidates = [posixpath.normpath(posixpath.join(folder, program))]
    else:
        candidates = [posixpath.join("/", place, program) for place in search_path.split(":") if place]
    if len(candidates) > _MAX_SEARCHED:
        return [Problem("PATH", f"{len(candidates)} folders, at most {_MAX_SEARCHED}", "leave out what is not needed")]
    reasons = [_program_problem(files, each, architecture) for each in candidates]
    if "" in reasons:
        return []
    display_name = printable(program, 120)
    absent = (
        f"{display_name} {_NOT_IN_IMAGE}"
        if "/" in program
        else f"{display_name} is in no folder of PATH ({printable(search_path, 200)})"
    )
    problem = next((reason for reason in reasons if reason), absent)
    return [Problem("ENTRYPOINT", problem, "name a program that the image has and that everybody may run")]


def _program_problem(files: ImageFiles, path: str, architecture: str) -> str | None:
    """Returns why a program cannot be started, empty where nothing speaks against it, None where there is none."""
    target = follow_links(files, path)
    display_name = printable(path, 120)
    if target is None:
        return None
    if isinstance(target, str):
        return f"{display_name} {target}"
    place, entry = target
    if entry.kind is not FileKind.FILE:
        return f"{display_name} is {entry.kind}, not a program"
    if not entry.mode & _EXECUTABLE:
        return f"{display_name} may not be run by everybody (its mode is {entry.mode & 0o7777:o})"
    return next(_program_needs(files, place, architecture), "")


def follow_links(files: ImageFiles, path: str) -> tuple[str, FileEntry] | str | None:
    """Returns where a path leads and what is there, None for nothing, or why its link leads to nothing."""
    place = path
    for _ in range(_MAX_LINKS):
        entry = files.file_entry(place)
        if entry is None:
            return None if place == path else f"is a symbolic link to {printable(place, 120)}, which {_NOT_IN_IMAGE}"
        if entry.kind is not FileKind.LINK:
            return place, entry
        place = posixpath.normpath(posixpath.join(posixpath.dirname(place), entry.target))
    return "is a symbolic link that leads nowhere"


def _program_needs(files: ImageFiles, path: str, architecture: str) -> Iterator[str]:
    """Yields what keeps the kernel from starting a file: its interpreter is missing, or it is for other machines."""
    head, display_name = files.read_head(path, HEAD_BYTES), printable(path, 120)
    if head.startswith(b"#!"):
        arguments = head[2:].split(b"\n", 1)[0].split()
        interpreter = arguments[0].decode("utf-8", "replace") if arguments else ""
    elif head.startswith(b"\x7fELF"):
        machine = _elf_machine(head)
        if machine and architecture and machine != architecture:
            yield f"{display_name} is made for {machine}, this engine runs {architecture}"
        interpreter = _elf_interpreter(head)
    else:
        interpreter = ""
    if interpreter:
        found = follow_links(files, posixpath.normpath(interpreter))
        if not isinstance(found, tuple):
            yield f"{display_name} needs {printable(interpreter, 120)}, which {_NOT_IN_IMAGE}"


def _elf_machine(head: bytes) -> str:
    """Returns what an ELF file is made for as images spell it, empty where that is not known."""
    if len(head) < 20:  # noqa: PLR2004  up to e_machine
        return ""
    return _MACHINES.get(int.from_bytes(head[18:20], "little" if head[5] == _LITTLE else "big"), "")


def _elf_interpreter(head: bytes) -> str:
    """Returns the loader that a 64-bit ELF file names, empty where none is found in its first bytes."""
    if len(head) < 64 or head[4] != _64_BITS or head[5] != _LITTLE:  # noqa: PLR2004  an ELF header
        return ""
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for number in range(min(count, 64)):
        at = table + number * size
        if at + 56 > len(head) or size < 56:  # noqa: PLR2004  a program header
            break
        (kind,) = struct.unpack_from("<I", head, at)
        offset, length = struct.unpack_from("<Q16xQ", head, at + 8)
        if kind == _INTERPRETER and offset + length <= len(head):
            return head[offset : offset + length].rstrip(b"\0").decode("utf-8", "replace")
    return ""
