"""What every sandbox owes (orchestrator/sandboxes/base.py), held against each file in the folder."""

import hashlib
import os
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.tasks import Limits
from orchestrator.sandboxes.base import POLL_SECONDS, STDERR_TAIL_BYTES, Ending, Exit, SandboxSpec

MIB = 1024 * 1024
AT_ONCE = 60.0
"""Seconds, on however busy a machine: what would be waited for otherwise takes twice as long, or never ends."""


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


def resident() -> int:
    """Returns how many bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_is_sent_comes_back(play, listen):
    """A player's stdin gets the bytes that were sent, and its stdout is what is received."""
    sandbox = play("echo")
    every = bytes(range(256))
    assert sandbox.send(every, soon(30))
    assert listen.exactly(sandbox, 256) == every


def test_two_full_pipes_do_not_wait_for_each_other(play, listen):
    """8 MiB go out while the player writes 8 MiB back, in pieces of at most 1 MiB."""
    sandbox = play("echo")
    data = secrets.token_bytes(MIB) * 8
    assert sandbox.send(data, soon(60))
    heard = bytearray()
    while len(heard) < len(data):
        piece = sandbox.receive(soon(30))
        assert piece
        assert len(piece) <= MIB
        heard += piece
    assert heard == data


def test_two_sandboxes_do_not_mix(play, listen):
    """Each sandbox hears its own player."""
    one, two = play("echo"), play("echo")
    assert one.send(b"first", soon(30))
    assert two.send(b"other", soon(30))
    assert listen.exactly(two, 5) == b"other"
    assert listen.exactly(one, 5) == b"first"


def test_a_deadline_passes_with_none(play):
    """A player that says nothing is None at the deadline, neither earlier nor much later."""
    sandbox = play("silent")
    begun = time.monotonic()
    assert sandbox.receive(begun + 0.3) is None
    assert 0.3 <= time.monotonic() - begun < AT_ONCE


def test_bytes_in_time_count_when_asked_for_late(play, listen):
    """What arrived before a deadline is returned after it; then the deadline has passed."""
    sandbox = play("echo")
    assert sandbox.send(b"ready?", soon(30))
    listen.exactly(sandbox, 6)
    assert sandbox.send(b"in time", soon(30))
    until, heard = soon(AT_ONCE), None
    while heard is None and time.monotonic() < until:
        time.sleep(0.2)
        heard = sandbox.receive(time.monotonic() - 0.1)
    assert heard == b"in time"
    assert sandbox.receive(time.monotonic() - 0.1) is None


def test_a_chattering_stderr_does_not_stretch_a_deadline(play):
    """A player that floods stderr is still None at the deadline."""
    sandbox = play("flood", "2")
    begun = time.monotonic()
    assert sandbox.receive(begun + 1) is None
    assert time.monotonic() - begun < AT_ONCE


def test_the_end_stays_the_end(play, listen):
    """After the last bytes comes b"", and nothing but b"" afterwards."""
    sandbox = play("leave", "0")
    assert listen.end(sandbox) == b"farewell"
    assert [sandbox.receive(soon(1)) for _ in range(3)] == [b"", b"", b""]


@pytest.mark.parametrize(
    ("code", "ending", "seen"), [("0", Ending.CLEAN, 0), ("7", Ending.CRASHED, 7), ("-11", Ending.CRASHED, 139)]
)
def test_a_clean_exit_and_a_crash_are_told_apart(play, listen, code, ending, seen):
    """A player that ended by itself is clean with code 0, else crashed, 128 + n for signal n."""
    sandbox = play("leave", code)
    listen.end(sandbox)
    end = sandbox.stop()
    assert (end.ending, end.code) == (ending, seen)
    assert end.stderr == b"it was me\n"


@pytest.mark.slow
def test_an_end_that_nobody_read_is_still_its_own(play):
    """A player that ended before `stop` is not called stopped, even if its output was never received."""
    sandbox = play("leave", "7")
    time.sleep(6)  # nothing but its output tells when it ends, which takes a second on a busy machine
    assert sandbox.stop().ending is Ending.CRASHED


def test_an_end_on_its_way_is_waited_for(play, listen):
    """A player that closes its stdout and exits a moment later has ended by itself, with its own code."""
    sandbox = play("linger")
    assert listen.end(sandbox) == b""
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 5)


def test_a_child_that_holds_the_pipes_does_not_keep_a_dead_player_alive(play, listen):
    """The end of a player is the end of its first process, whoever still has its stdout open."""
    sandbox = play("stray", f"token-{secrets.token_hex(8)}", "go")
    begun = time.monotonic()
    assert listen.end(sandbox, 2 * AT_ONCE) == b"up"
    assert time.monotonic() - begun < AT_ONCE


def test_stopping_a_running_player_is_our_doing(play):
    """A player that was still running is stopped, and no exit code is made up."""
    end = play("silent").stop()
    assert (end.ending, end.code) == (Ending.STOPPED, None)
    assert end.wall_seconds >= 0


def test_the_tail_of_stderr_is_kept(play, listen):
    """Of 200 KiB of stderr the last 64 KiB are kept."""
    sandbox = play("talkative")
    listen.end(sandbox)
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 3)
    assert len(end.stderr) == STDERR_TAIL_BYTES
    assert end.stderr.endswith(b"\nthe last line\n")
    assert b"00000..." not in end.stderr


def test_a_player_that_does_not_read_stops_a_send_at_its_deadline(play):
    """Sending to a player that does not read is False at the deadline, and at once afterwards."""
    sandbox = play("silent")
    begun = time.monotonic()
    assert not sandbox.send(bytes(8 * MIB), begun + 0.5)
    assert 0.4 < time.monotonic() - begun < AT_ONCE
    begun = time.monotonic()
    assert not sandbox.send(b"more", begun + 2 * AT_ONCE)
    assert time.monotonic() - begun < AT_ONCE


def test_a_send_to_a_player_that_never_reads_can_be_cancelled(play):
    """Cancelled in the middle, a send is False within a slice, long before its deadline; nothing may follow."""
    sandbox, cancelled = play("silent"), threading.Event()
    threading.Timer(1, cancelled.set).start()
    begun = time.monotonic()
    assert not sandbox.send(bytes(8 * MIB), begun + 2 * AT_ONCE, cancelled.is_set)
    assert 0.9 < time.monotonic() - begun < AT_ONCE
    begun = time.monotonic()
    assert not sandbox.send(b"more", begun + 2 * AT_ONCE)
    assert sandbox.stop().ending is Ending.STOPPED
    assert time.monotonic() - begun < AT_ONCE


@pytest.mark.slow
def test_a_slow_reader_gets_every_byte_once(play, listen):
    """What a player reads in several slices arrives whole and in order, and `cancelled` is asked meanwhile."""
    data, asked = secrets.token_bytes(8 * MIB), []
    sandbox = play("slow", str(len(data)))
    assert sandbox.send(data, soon(60), lambda: bool(asked.append(time.monotonic())))
    assert len(asked) > 3
    assert asked[-1] - asked[0] > 2 * POLL_SECONDS
    assert listen.end(sandbox).decode() == hashlib.sha256(data).hexdigest()


def test_sending_to_a_dead_player_is_refused_early(play, listen):
    """A closed stdin ends a send long before its deadline."""
    sandbox = play("leave", "0")
    listen.end(sandbox)
    begun = time.monotonic()
    assert not sandbox.send(bytes(8 * MIB), begun + 2 * AT_ONCE)
    assert time.monotonic() - begun < AT_ONCE


def test_stop_is_safe_to_call_twice(play):
    """A second `stop` returns what the first one did."""
    sandbox = play("echo")
    first = sandbox.stop()
    assert isinstance(first, Exit)
    assert sandbox.stop() is first


@pytest.mark.parametrize("descriptor", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_flood_does_not_hold_up_stop(play, descriptor):
    """A player in the middle of a flood is stopped within seconds."""
    sandbox = play("flood", descriptor)
    sandbox.receive(soon(1))
    time.sleep(0.3)
    begun = time.monotonic()
    assert sandbox.stop().ending is Ending.STOPPED
    assert time.monotonic() - begun < AT_ONCE


@pytest.mark.slow
def test_a_flood_during_a_send_is_not_hoarded(play):
    """Of a player that writes and does not read, no more than some 16 MiB are held until the deadline."""
    sandbox = play("flood", "1")
    before = resident()
    assert not sandbox.send(bytes(8 * MIB), soon(2))
    assert resident() - before < 64 * MIB


def test_nothing_of_the_host_is_in_the_environment(play, listen, monkeypatch):
    """A player sees none of the orchestrator's variables, and has the thread limits that the order says."""
    monkeypatch.setenv("SPARRING_TEST_SECRET", "hunter2")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy")
    limits = replace(Limits(), threads=3, files=123)
    report = listen.report(play("surroundings", limits=limits))
    environment = report["environment"]
    assert "hunter2" not in str(environment)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        assert environment[name] == "3"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert (report["files"], report["core"]) == (123, 0)
    assert report["descriptors"] == [0, 1, 2]
    assert "surroundings.py" in report["beside"]


def test_a_player_reaches_itself_by_the_name_localhost(play, listen):
    """Programs whose parts speak to each other over the loopback run as they do elsewhere."""
    assert listen.report(play("surroundings"))["localhost"]


def test_neither_run_nor_job_is_told(backend, image, listen, policy):
    """A player cannot read which run or job it plays in: that would tell a replay from the first time."""
    words = ("python3", "surroundings.py")
    sandbox = backend.start(SandboxSpec(replace(image, command=words), policy, "secret-run", "secret-job"))
    try:
        assert "secret-" not in str(listen.report(sandbox))
    finally:
        sandbox.stop()


def test_a_missing_program_is_a_crash(play, listen):
    """A program that is not there ends the stream at once, and the reason is on stderr."""
    begun = time.monotonic()
    sandbox = play("", command=("there-is-no-such-program", "argument"))
    assert listen.end(sandbox) == b""
    end = sandbox.stop()
    assert end.ending is Ending.CRASHED
    assert end.code in {126, 127}
    assert b"there-is-no-such-program" in end.stderr
    assert time.monotonic() - begun < AT_ONCE


def test_too_much_memory_ends_a_player(backend, play, listen):
    """A player beyond its memory limit ends; where the kernel kills it, that is what is reported."""
    sandbox = play("hoard", limits=replace(Limits(), memory=64 * MIB))
    listen.end(sandbox)
    end = sandbox.stop()
    assert end.ending is (Ending.CRASHED if backend.name == "process" else Ending.OUT_OF_MEMORY)


def test_usage_is_reported(play, listen):
    """After a talk of more than a moment, processor time and peak memory are known."""
    sandbox = play("echo")
    for _ in range(3):
        assert sandbox.send(b"x", soon(30))
        listen.exactly(sandbox, 1)
        time.sleep(0.3)
    end = sandbox.stop()
    assert end.cpu_seconds is not None
    assert 0 < end.cpu_seconds < 5
    assert end.peak_bytes is not None
    assert MIB < end.peak_bytes < 256 * MIB
    assert 0.9 < end.wall_seconds < 30
