"""The profile at work: calls by number, in a sandbox with it and in one without."""

import errno
import json
import os
import platform
from dataclasses import replace

import pytest

from orchestrator.domain.policy import Seccomp
from orchestrator.sandboxes.base import SandboxSpec

pytestmark = [
    pytest.mark.docker,
    pytest.mark.parametrize("backend", ["docker", "runc"], indirect=True, scope="module"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are x86-64's"),
    pytest.mark.skipif(os.environ.get("SPARRING_TEST_RUNTIME", "runc") != "runc", reason="gVisor has its own filter"),
]

P, N = errno.EPERM, errno.ENOSYS
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
CALLS = {
    "ptrace": ([101, 0, 0, 0, 0], P),
    "process_vm_readv": ([310, 1, 0, 0, 0, 0, 0], P),
    "kcmp": ([312, 1, 1, 0, 0, 0], P),
    "pidfd_getfd": ([438, 0, 0, 0], P),
    "keyctl": ([250, 0, 0xFFFFFFFD, 0], P),
    "add_key": ([248, 0, 0, 0, 0, 0], P),
    "io_uring_setup": ([425, 1, 0], N),
    "io_setup": ([206, 1, 0], N),
    "userfaultfd": ([323, 1], N),
    "memfd_secret": ([447, 0], N),
    "mincore": ([27, 0, 0, 0], P),
    "fadvise64": ([221, 0, 0, 0, 0], N),
    "preadv2": ([327, 0, 0, 0, 0, 0, 0], N),
    "flock": ([73, 0, 6], N),
    "inotify_init1": ([294, 0], N),
    "open_by_handle_at": ([304, 0, 0, 0], P),
    "fanotify_init": ([300, 0, 0], N),
    "bpf": ([321, 0, 0, 0], P),
    "perf_event_open": ([298, 0, 0, 0, 0, 0], P),
    "seccomp": ([317, 2, 0, 0], P),
    "syslog": ([103, 10, 0, 0], P),
    "adjtimex": ([159, 0], P),
    "mount": ([165, 0, 0, 0, 0, 0], P),
    "fsopen": ([430, 0, 0], P),
    "chroot": ([161, 0], P),
    "unshare": ([272, CLONE_NEWUSER], P),
    "clone with a user namespace": ([56, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0], P),
    "clone3": ([435, 0, 0], N),
    "finit_module": ([313, 0, 0, 0], P),
    "get_mempolicy": ([239, 0, 0, 0, 0, 0], P),
    "sync": ([162], P),
    "splice": ([275, 0, 0, 0, 0, 0, 0], N),
    "personality without address randomisation": ([135, 0x0040000], P),
    "prctl with memory merging": ([157, 67, 1, 0, 0, 0], P),
    "madvise with merging": ([28, 0, 0, 12], P),
    "fcntl F_GETLK": ([72, 0, 5, 0], P),
    "socket of AF_PACKET": ([41, 17, 3, 0], P),
    "socket of AF_VSOCK": ([41, 40, 1, 0], P),
    "socket of AF_ALG": ([41, 38, 5, 0], P),
    "socket of AF_BLUETOOTH": ([41, 31, 3, 1], P),
    "socket of SCTP": ([41, 2, 1, 132], P),
    "socket of MPTCP": ([41, 2, 1, 262], P),
    "socket of netlink's netfilter": ([41, 16, 3, 12], P),
    "a call that there is not": ([4000], N),
}
FINE = {
    "socket of TCP": [41, 2, 1, 6],
    "socket of UDP": [41, 10, 2, 0],
    "socket of AF_UNIX": [41, 1, 1, 0],
    "socket of netlink's routes": [41, 16, 3, 0],
    "personality asked": [135, 0xFFFFFFFF],
    "fcntl F_GETFL": [72, 0, 3, 0],
}


@pytest.fixture(scope="module")
def answers(backend, image, policy, listen) -> dict[Seccomp, dict]:
    """What each call answers, with our profile and without any."""
    asked = json.dumps({name: words for name, (words, _) in CALLS.items()} | FINE)
    found = {}
    for seccomp in (Seccomp.PLAYER, Seccomp.NONE):
        sandbox_spec = SandboxSpec(
            replace(image, command=("python3", "calls.py", asked)), replace(policy, seccomp=seccomp), "t", "j"
        )
        sandbox = backend.start(sandbox_spec)
        try:
            found[seccomp] = listen.report(sandbox)
        finally:
            sandbox.stop()
    return found


def test_what_is_refused_fails_as_it_is_said(answers):
    """Every dangerous call, by itself or by its arguments, fails with the error that the profile gives."""
    got = {name: answers[Seccomp.PLAYER][name] for name in CALLS}
    assert got == {name: error for name, (_, error) in CALLS.items()}


def test_it_is_the_profile_that_refuses(answers):
    """Without the profile nearly all of these calls answer something else: it is not the kernel that lacks them."""
    changed = [name for name, (_, error) in CALLS.items() if answers[Seccomp.NONE][name] != error]
    assert len(changed) >= 25
    assert {"ptrace", "flock", "mincore", "keyctl", "inotify_init1", "fcntl F_GETLK", "sync", "adjtimex"} <= set(
        changed
    )


def test_what_programs_need_passes(answers):
    """Sockets of the usual kinds and harmless arguments pass."""
    assert {name: answers[Seccomp.PLAYER][name] for name in FINE} == dict.fromkeys(FINE, 0)


def test_a_32_bit_call_ends_its_caller(answers):
    """`int 0x80` is death by SIGSYS (or by SIGSEGV on a kernel without 32-bit calls), never an answer."""
    assert answers[Seccomp.PLAYER]["int 0x80"] in {-31, -11}
