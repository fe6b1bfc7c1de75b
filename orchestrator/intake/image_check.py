"""Inspects an image before it runs: its contents, the problems for which admission refuses it, and warnings.

The problems are exactly those for which `Backend.admit` refuses it, since only the backend checks an image's
configuration. Settings that a sandbox overrides, or that are harmless in it, are warnings: a user, an open port,
set-user-id files.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected
from orchestrator.sandboxes.base import Backend, ImageFacts, ImageTree

LARGE_LAYER_BYTES = 4 * 1024**3
"""The size in bytes above which a layer gets a warning: it is copied to every machine that plays."""
HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"PASS(WORD|WD|PHRASE)?(_|$)|SECRET|TOKEN|API_?KEY|_KEY$|^KEY$|CREDENTIAL|(^|_)AUTH(_|$)|COOKIE|(^|_)PAT$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|hf_\w{20,}"
    r"|sk-[\w-]{20,}|pypi-\w{16,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}|-----BEGIN|://[^/\s:@]*:[^/\s@]+@"
)
_FILE_KINDS = {
    "set_id": ("set-user-id or set-group-id", "they gain nothing in a sandbox; remove the bit with chmod ug-s"),
    "capable": ("with capabilities", "they gain nothing in a sandbox; remove them with setcap -r"),
    "devices": ("device nodes", "a sandbox has no access to devices; remove them"),
    "writable": ("writable by everybody", "a sandbox can write to /tmp only, the rest is read-only"),
}
"""Kind of file -> its description and the remedy."""


@dataclass(frozen=True)
class Inspection:
    """The result of inspecting an image: facts, with the reasons for a refusal, and warnings."""

    facts: ImageFacts
    warnings: tuple[Problem, ...]

    @property
    def refused(self) -> tuple[Problem, ...]:
        """The problems for which admission refuses the image; empty if it does not."""
        return self.facts.problems


def inspect_image(backend: Backend, reference: str) -> Inspection:
    """Inspects an image, given by name or id, without starting it.

    Raises:
        UsageError: the backend has no images, or not this one.
        InfrastructureFault: the engine failed.
    """
    facts = backend.inspect_image(reference)
    return Inspection(facts, tuple(_warnings(facts)))


def require_admissible(backend: Backend, reference: str, *, largest: int) -> None:
    """Raises Rejected with all problems for which admission refuses an image of at most `largest` bytes."""
    problems = backend.inspect_image(reference, files=False, max_bytes=largest).problems
    if problems:
        raise Rejected(f"image {printable(reference)}", problems)


def is_secret(name: str, value: str) -> bool:
    """Returns whether a variable or label looks like a credential, by its name or by its value."""
    return bool(value) and bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def display_value(name: str, value: str) -> str:
    """Returns the value of a variable or label as it may be shown: hidden if it looks like a credential."""
    return HIDDEN if is_secret(name, value) else printable(value, 120)


def display_command(command: Sequence[str]) -> str:
    """Returns a command as it may be shown: a word that looks like a credential is hidden."""
    return " ".join(HIDDEN if _SECRET_VALUE.search(word) else printable(word, 120) for word in command)


def _warnings(facts: ImageFacts) -> Iterator[Problem]:
    if facts.user.partition(":")[0] in {"", "0", "root"}:
        user = "no user, which means root" if not facts.user else printable(facts.user, 40)
        yield Problem(
            "USER", f"{user}; a sandbox runs it as another user", "write USER 10001, to test it as a sandbox runs it"
        )
    if facts.ports:
        ports = printable(", ".join(facts.ports), 80)
        yield Problem("EXPOSE", f"{ports}; a sandbox has no network", "remove it")
    secrets = [
        name for name, _, value in (variable.partition("=") for variable in facts.environment) if is_secret(name, value)
    ]
    for name in secrets:
        yield Problem("ENV", f"{printable(name, 60)} looks like a credential", "remove it, and revoke the credential")
    dropped = sorted({variable.partition("=")[0] for variable in facts.environment} - facts.passed_variables)
    if dropped:
        names = printable(", ".join(dropped), 160)
        yield Problem("ENV", f"{names}; a sandbox does not pass this to a player", "do not rely on it")
    for name, value in facts.labels.items():
        if is_secret(name, value):
            yield Problem(
                "LABEL", f"{printable(name, 60)} looks like a credential", "remove it, and revoke the credential"
            )
    for number, size in enumerate(facts.layers, start=1):
        if size > LARGE_LAYER_BYTES:
            yield Problem(
                f"layer {number}",
                f"{size} bytes, more than {LARGE_LAYER_BYTES}",
                "leave out what playing does not need",
            )
    if facts.tree is not None:
        yield from _file_warnings(facts.tree)


def _file_warnings(tree: ImageTree) -> Iterator[Problem]:
    for kind, (description, remedy) in _FILE_KINDS.items():
        if count := tree.counts[kind]:
            names = ", ".join(tree.names[kind][:5]) + (", …" if count > 5 else "")  # noqa: PLR2004  a few will do
            yield Problem("files", f"{count} {description}: {names}", remedy)
    if tree.cut_reason:
        checked = f"only the first {tree.files} were checked" if tree.files else "none was checked"
        yield Problem("files", f"{checked}: {tree.cut_reason}", "check the rest by hand")
