"""Reads what the first process of a player's container reports, on a FIFO that the player can write to as well.

A line counts if it begins with the secret word that the driver drew for this pod and sent once, before the player was
started. The player does not know the word: the first process runs a program that nobody may read, so the player's user
cannot inspect the process. A line with the word therefore comes from the first process, which reports what the kernel
says, and the first line of each kind counts. Lines that the player writes change nothing. It can only prevent the
report, by ending the first process, and then its end counts as a crash.
"""

import re
import secrets
from dataclasses import dataclass

from orchestrator.errors import SandboxLost

_KEPT_BYTES = 1024
_FIELD_COUNTS = {"here": 5, "last": 6}


@dataclass(frozen=True, slots=True)
class PlayerIdentity:
    """The player's user and rights. A field is None if this kernel does not report it.

    `capabilities` are the effective ones as the kernel's bits; `seccomp` is 2 if system calls are filtered;
    `inspectable` is 1 if the player can inspect the first process, and so could learn the secret word.
    """

    user: int | None
    capabilities: int | None
    no_new_privileges: int | None
    seccomp: int | None
    inspectable: int | None


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How the player ended and what it used. `status` is None if it was ended, other fields if they are not counted."""

    status: int | None
    kills: int
    peak_bytes: int | None
    cpu_seconds: float | None
    peak_pids: int | None


class ExitChannel:
    """Reads the lines that count out of everything that is written there; holds 1 KiB."""

    def __init__(self, token: str) -> None:
        self._line = re.compile(rb"\n%s (here|last)((?: [0-9a-f]{1,20}| -)+)\n" % token.encode("ascii"))
        self._unparsed = b""
        self.identity: PlayerIdentity | None = None
        self.exit_report: ExitReport | None = None

    def feed(self, data: bytes) -> None:
        """Takes what was read.

        Raises:
            SandboxLost: a line of ours that cannot be understood: the other side is of another version.
        """
        text = self._unparsed + data
        for found in self._line.finditer(text):
            self._take_line(found[1].decode("ascii"), found[2].decode("ascii").split())
        self._unparsed = text[-_KEPT_BYTES:]

    def _take_line(self, kind: str, fields: list[str]) -> None:
        if len(fields) != _FIELD_COUNTS[kind]:
            raise SandboxLost(
                f"the pod's shell sent {len(fields)} fields with {kind!r} in place of {_FIELD_COUNTS[kind]}; "
                "run both containers from the same runner image"
            )
        if kind == "here" and self.identity is None:
            user, capabilities, *others = fields
            self.identity = PlayerIdentity(
                _parse_number(user), _parse_number(capabilities, 16), *map(_parse_number, others)
            )
        if kind == "last" and self.exit_report is None:
            status, kills, peak, micro, nano, pids = map(_parse_number, fields)
            cpu = micro / 1e6 if micro is not None else nano / 1e9 if nano is not None else None
            self.exit_report = ExitReport(status, kills or 0, peak, cpu, pids)


def draw_token() -> str:
    """Returns a word that nobody can guess."""
    return secrets.token_hex(16)


def _parse_number(field: str, base: int = 10) -> int | None:
    try:
        return int(field, base)
    except ValueError:
        return None
