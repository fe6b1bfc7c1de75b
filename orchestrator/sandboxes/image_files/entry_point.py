"""Checks that an image's command can be started: the program exists, is executable, and is for this architecture.

A player whose program is missing ends at once, with a message of the runtime that names neither cause nor remedy:
`exec /player failed: No such file or directory` is also the message for a missing interpreter.
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
"""Bytes of a program that are read."""
_NOT_IN_IMAGE = "is not in the image"
_MAX_LINKS = 40
"""The most symbolic links that are followed one after another, as in the kernel."""
_MAX_SEARCHED = 100
"""The most folders that PATH may have; images have about ten."""
_EXECUTABLE = 0o001
"""The permission for others: a sandbox's user owns no file, and is in no file's group."""
_MACHINES = {3: "386", 40: "arm", 62: "amd64", 183: "arm64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
"""ELF's numbers of architectures, with the names that images use."""
_INTERPRETER = 3
_LITTLE, _64_BITS = 1, 2


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What is at a path: `mode` has the permission bits, `target` is the target of a symbolic link."""

    kind: FileKind
    mode: int
    target: str = ""
    size: int = 0


class ImageFiles(Protocol):
    """An image's files. Paths are absolute; links in the folders above are followed."""

    def file_entry(self, path: str) -> FileEntry | None:
        """Returns what is at a path, None if nothing."""
        ...

    def read_head(self, path: str, count: int) -> bytes:
        """Returns a file's first bytes."""
        ...


def entry_point_problems(
    files: ImageFiles, command: Sequence[str], folder: str, search_path: str, architecture: str
) -> list[Problem]:
    """Returns why a command cannot be started in `folder`, with `search_path` as PATH, on this architecture."""
    program = command[0]
    if "/" in program:
        candidates = [posixpath.normpath(posixpath.join(folder, program))]
    else:
        candidates = [posixpath.join("/", each, program) for each in search_path.split(":") if each]
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
    """Returns why a program cannot be started, an empty text if it can, None if there is no such file."""
    target = follow_links(files, path)
    display_name = printable(path, 120)
    if target is None:
        return None
    if isinstance(target, str):
        return f"{display_name} {target}"
    real_path, entry = target
    if entry.kind is not FileKind.FILE:
        return f"{display_name} is {entry.kind}, not a program"
    if not entry.mode & _EXECUTABLE:
        return f"{display_name} may not be run by everybody (its mode is {entry.mode & 0o7777:o})"
    return next(_program_needs(files, real_path, architecture), "")


def follow_links(files: ImageFiles, path: str) -> tuple[str, FileEntry] | str | None:
    """Returns the path that a path resolves to and what is there, None if nothing is, or why its link is broken."""
    current = path
    for _ in range(_MAX_LINKS):
        entry = files.file_entry(current)
        if entry is None:
            is_missing = current == path
            return None if is_missing else f"is a symbolic link to {printable(current, 120)}, which {_NOT_IN_IMAGE}"
        if entry.kind is not FileKind.LINK:
            return current, entry
        current = posixpath.normpath(posixpath.join(posixpath.dirname(current), entry.target))
    return "is a symbolic link that leads nowhere"


def _program_needs(files: ImageFiles, path: str, architecture: str) -> Iterator[str]:
    """Yields why the kernel cannot start a file: its interpreter is missing, or it is for another architecture."""
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
        resolved = follow_links(files, posixpath.normpath(interpreter))
        if not isinstance(resolved, tuple):
            yield f"{display_name} needs {printable(interpreter, 120)}, which {_NOT_IN_IMAGE}"


def _elf_machine(head: bytes) -> str:
    """Returns the architecture of an ELF file in the notation of images, an empty text if it is not known."""
    if len(head) < 20:  # noqa: PLR2004  up to e_machine
        return ""
    return _MACHINES.get(int.from_bytes(head[18:20], "little" if head[5] == _LITTLE else "big"), "")


def _elf_interpreter(head: bytes) -> str:
    """Returns the interpreter (loader) of a 64-bit ELF file, an empty text if its first bytes name none."""
    if len(head) < 64 or head[4] != _64_BITS or head[5] != _LITTLE:  # noqa: PLR2004  an ELF header
        return ""
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for number in range(min(count, 64)):
        start = table + number * size
        if start + 56 > len(head) or size < 56:  # noqa: PLR2004  a program header
            break
        (kind,) = struct.unpack_from("<I", head, start)
        offset, length = struct.unpack_from("<Q16xQ", head, start + 8)
        if kind == _INTERPRETER and offset + length <= len(head):
            return head[offset : offset + length].rstrip(b"\0").decode("utf-8", "replace")
    return ""
