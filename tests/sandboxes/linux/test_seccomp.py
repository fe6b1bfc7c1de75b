"""The profile itself, and docs/seccomp.md against it."""

import re
from pathlib import Path

import pytest

from orchestrator.sandboxes.linux import seccomp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "seccomp.md"
NUMBERS = {"EPERM": 1, "ENOSYS": 38}
MUST_FAIL = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "kcmp",
    "keyctl",
    "add_key",
    "request_key",
    "io_uring_setup",
    "userfaultfd",
    "memfd_secret",
    "mincore",
    "cachestat",
    "fadvise64",
    "flock",
    "open_by_handle_at",
    "fanotify_init",
    "bpf",
    "perf_event_open",
    "syslog",
    "quotactl",
    "clock_settime",
    "settimeofday",
    "clock_adjtime",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "clone3",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "reboot",
    "swapon",
]


def allowed() -> list[dict]:
    """Returns the groups that are allowed."""
    return [group for group in seccomp.seccomp_document()["syscalls"] if group["action"] == "SCMP_ACT_ALLOW"]


def refused() -> list[dict]:
    """Returns the groups that are refused by name."""
    return [group for group in seccomp.seccomp_document()["syscalls"] if group["action"] != "SCMP_ACT_ALLOW"]


def rows(heading: str) -> list[list[str]]:
    """Returns the table under a heading of the document."""
    text = DOCUMENT.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_what_is_not_listed_is_refused() -> None:
    """The default is an error, no action but allowing and refusing occurs, and each group gives its reason."""
    document = seccomp.seccomp_document()
    assert document["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {group["action"] for group in document["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    assert all(len(group["comment"]) >= 8 for group in document["syscalls"])
    assert {group["errnoRet"] for group in refused()} == set(NUMBERS.values())


def test_only_64_bit_calls_pass() -> None:
    """No architecture brings another one with it: 32-bit calls would pass by the filters of socket and clone."""
    assert [each["subArchitectures"] for each in seccomp.seccomp_document()["archMap"]] == [[], []]


def test_no_call_is_both_allowed_and_refused() -> None:
    """Each call stands on one side; those without a condition on their arguments stand there once."""
    yes = [name for group in allowed() for name in group["names"]]
    no = [name for group in refused() for name in group["names"]]
    whole = [name for group in allowed() if not group.get("args") for name in group["names"]]
    conditional = [name for group in allowed() if group.get("args") for name in group["names"]]
    assert not set(yes) & set(no)
    assert len(no) == len(set(no))
    assert len(whole) == len(set(whole))
    assert not set(whole) & set(conditional)
    assert {"clone", "socket", "fcntl", "personality", "prctl", "madvise"} <= set(conditional)


@pytest.mark.parametrize("name", MUST_FAIL)
def test_what_a_reviewer_asks_for_is_refused_by_name(name) -> None:
    """Each dangerous call is refused by name, so that its reason is on record."""
    assert [group["names"] for group in refused() if name in group["names"]]


def test_nobody_asks_for_locks_of_others() -> None:
    """F_GETLK (5), locks of open file descriptions (36 to 38), leases and notices (1024 to 1026) match no condition."""
    conditions = [group["args"][0] for group in allowed() if "fcntl" in group["names"]]
    assert {each["op"] for each in conditions} == {"SCMP_CMP_LE", "SCMP_CMP_EQ"}
    below = max(each["value"] for each in conditions if each["op"] == "SCMP_CMP_LE")
    equal = {each["value"] for each in conditions if each["op"] == "SCMP_CMP_EQ"}
    assert not [command for command in (5, 36, 37, 38, 1024, 1025, 1026) if command <= below or command in equal]


def test_the_text_that_is_sent_is_the_file_without_its_reasons() -> None:
    """The engine gets the same groups in the same order, in one line."""
    text = seccomp.seccomp_profile()
    assert "\n" not in text
    assert "comment" not in text
    assert text.count('"names"') == len(seccomp.seccomp_document()["syscalls"])


def test_every_refused_call_stands_in_the_document_with_its_reason() -> None:
    """docs/seccomp.md has the refused groups in their order: calls, error and reason."""
    table = [(re.findall(r"`(\w+)`", row[0]), NUMBERS[row[1]], row[2]) for row in rows("What is refused")]
    assert table == [(group["names"], group["errnoRet"], group["comment"]) for group in refused()]


def test_every_condition_stands_in_the_document() -> None:
    """docs/seccomp.md has every conditional group in its order, with its conditions and its reason."""
    signs = {"SCMP_CMP_EQ": "==", "SCMP_CMP_LE": "<="}
    expected = []
    for group in allowed():
        if group.get("args"):
            words = [
                f"argument {one['index']} & {one['value']:#x} == {one['valueTwo']:#x}"
                if one["op"] == "SCMP_CMP_MASKED_EQ"
                else f"argument {one['index']} {signs[one['op']]} {one['value']}"
                for one in group["args"]
            ]
            expected.append((group["names"], ", ".join(words), group["comment"]))
    table = rows("What is allowed with some arguments only")
    assert [(re.findall(r"`(\w+)`", row[0]), row[1], row[2]) for row in table] == expected
