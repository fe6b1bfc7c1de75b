"""The self-test notices what gets through, what fails, and what proves nothing."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import Network, Runtime, Seccomp, User
from orchestrator.errors import Rejected, UsageError
from orchestrator.sandbox_selftest import selftest
from orchestrator.sandbox_selftest.canaries import HostCanaries
from orchestrator.sandbox_selftest.expectation import ExpectedResult, read_catalogue
from orchestrator.sandbox_selftest.outcome import RunResult, Verdict, judge_run

EXPECT = """
family: files
kind: sandbox
attempt: something of which this test knows the end
gain: nothing at all
control: tmp
seconds: 5
contained: {harm: false}
removed:
  limits: {tmp: 67108864}
  expected: {harm: true}
"""


@pytest.fixture
def program(tmp_path, hostile):
    """Returns a function that makes a folder of one program."""

    def make(source: str, expect: str = EXPECT):
        folder = tmp_path / "programs" / "files-test"
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "_report.py").write_text((hostile / "_report.py").read_text("utf-8"), "utf-8")
        (folder / "program.py").write_text(source, "utf-8")
        (folder / "expect.yaml").write_text(expect, "utf-8")
        return read_catalogue(folder.parent)[0]

    return make


@pytest.mark.docker
@pytest.mark.parametrize(
    ("name", "weaken"),
    [
        ("network-host-service", {"network": Network.HOST}),
        ("files-write-root", {"read_only_root": False, "user": User.ROOT}),
        ("files-execute-tmp", {"noexec_tmp": False}),
        ("privilege-set-user-id", {"no_new_privileges": False}),
        ("privilege-user-namespace", {"seccomp": Seccomp.NONE}),
    ],
)
def test_a_fallen_wall_is_noticed(name, weaken, context, programs) -> None:
    """Under a policy that was weakened without telling, the program that the wall was for gets through."""
    outcome = selftest.run_program(programs[name], replace(context, policy_overrides=weaken), removed=False)
    assert outcome.verdict is Verdict.GOT_THROUGH
    assert "harm is True" in outcome.evidence
    assert not outcome.is_fine


@pytest.mark.docker
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemExit('I could not even begin')", "I could not even begin"),
        ("import time; time.sleep(60)", "ended stopped"),
        ("print('harm: false')", "no report"),
        ("from _report import report; report(False, 'begun'); report(True, 'done')", "done"),
    ],
)
def test_only_a_report_of_no_harm_is_no_harm(source, said, program, context) -> None:
    """A program that crashes, hangs, mumbles or changes its mind is not contained."""
    outcome = selftest.run_program(program(source), context, removed=False)
    assert outcome.verdict is Verdict.GOT_THROUGH
    assert said in outcome.evidence


@pytest.mark.docker
def test_a_harmless_program_is_unproved(program, context) -> None:
    """A program that does no harm without its control proves nothing, and that is a failure."""
    tame = program("from _report import report\nreport(False, 'tame')")
    assert selftest.run_program(tame, context, removed=False).verdict is Verdict.CONTAINED
    outcome = selftest.run_program(tame, context, removed=True)
    assert outcome.verdict is Verdict.UNPROVED
    assert not outcome.is_fine


@pytest.mark.docker
def test_a_run_that_fails_shows_nothing(program, context) -> None:
    """What the engine could not start counts against us, with its reason in the line."""
    broken = replace(context, image=replace(context.image, digest="sha256:" + "0" * 64))
    outcome = selftest.run_program(program("print()"), broken, removed=False)
    assert outcome.verdict is Verdict.GOT_THROUGH
    assert "nothing was shown" in outcome.evidence


@pytest.mark.docker
def test_evidence_cannot_move_the_cursor(program, context) -> None:
    """What a program says of itself is shown with its control characters escaped."""
    loud = program("from _report import report\nreport(False, '\\x1b[2Jcontained')")
    assert "\\x1b[2Jcontained" in selftest.run_program(loud, context, removed=False).evidence


def test_a_known_failure_is_no_secret(program) -> None:
    """Under a runtime with a known failure the program is shown as such, with the reason; elsewhere it is a failure."""
    tame = program("print()")
    excused = judge_run(tame, RunResult(harm=True), removed=False, excuse="this kernel has no such call")
    assert excused.verdict is Verdict.KNOWN_FAILURE
    assert "no such call" in excused.evidence
    assert excused.is_fine
    assert judge_run(tame, RunResult(harm=True), removed=False).verdict is Verdict.GOT_THROUGH


def test_an_excuse_that_is_not_needed_is_not_used(program) -> None:
    """A program that is contained in spite of a known failure is contained."""
    outcome = judge_run(program("print()"), RunResult(harm=False), removed=False, excuse="it cannot work")
    assert outcome.verdict is Verdict.CONTAINED
    assert "it cannot work" not in outcome.evidence


@pytest.mark.parametrize(
    ("seen", "observed", "wrong"),
    [
        (ExpectedResult(harm=False), RunResult(harm=None), "harm is None"),
        (ExpectedResult(ending="out-of-memory"), RunResult(ending="crashed"), "ending is 'crashed'"),
        (ExpectedResult(fault="protocol/id"), RunResult(fault=None), "fault is None"),
        (ExpectedResult(refused=["VOLUME"]), RunResult(refused=[]), "refused is []"),
        (ExpectedResult(max_seconds=5), RunResult(seconds=5.1), "seconds 5.1"),
        (ExpectedResult(max_peak_bytes=1000), RunResult(peak_bytes=1001), "peak bytes 1001"),
        (ExpectedResult(max_peak_bytes=1000), RunResult(peak_bytes=None), "peak bytes None"),
        (ExpectedResult(max_cpu_share=0.4), RunResult(cpu_share=0.5), "cpu share 0.5"),
        (ExpectedResult(min_cpu_share=0.4), RunResult(cpu_share=0.3), "cpu share 0.3"),
    ],
)
def test_every_expectation_is_compared(seen, observed, wrong) -> None:
    """Whatever is expected and not seen is said in words."""
    [found] = observed.mismatches(seen)
    assert wrong in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  limits: {tmp: lots}", "write a whole number"),
        ("  limits: {temp: 5}", "no field of Limits: temp"),
        ("  policy: {netwrok: host}", "no field of SandboxPolicy: netwrok"),
        ("  policy: {network: everywhere}", "write none or host"),
        ("  bypas: true", "unknown key"),
    ],
)
def test_a_mistake_in_an_expectation_is_refused(line, said, program) -> None:
    """A control that is misspelt would remove nothing, so it is refused with its line."""
    with pytest.raises(Rejected, match="line ") as caught:
        program("print()", EXPECT.replace("  limits: {tmp: 67108864}", line))
    assert said in str(caught.value)


def test_a_program_without_proof_or_excuse_is_refused(program) -> None:
    """An expectation says what happens without the control, or why that is not tried."""
    with pytest.raises(Rejected, match="the reason for its absence"):
        program("print()", EXPECT.split("removed:", maxsplit=1)[0])


def test_an_unknown_name_is_a_usage_error(program) -> None:
    """`--only` takes names and families that are there."""
    one = [program("print()")]
    assert (
        selftest.select_programs(one, ["files"])
        == selftest.select_programs(one, ["files-test"])
        == selftest.select_programs(one, [])
        == one
    )
    with pytest.raises(UsageError, match="flies"):
        selftest.select_programs(one, ["files", "flies"])


def test_bait_counts_its_visitors() -> None:
    """The host's services answer with the token, by TCP, by name and as a name server, and count."""
    with HostCanaries() as bait:
        port = int(bait.token.rpartition("-")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
            assert line.recv(200).decode().strip() == bait.token
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            line.connect(f"\0{bait.token}")
            assert line.recv(200).decode().strip() == bait.token
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.settimeout(5)
            line.sendto(b"\x00\x07" + bytes(10) + b"question", ("127.0.0.1", port))
            answer = line.recv(512)
            assert (answer[:2], answer[-4:]) == (b"\x00\x07", bytes([127, 0, 0, 66]))
        assert bait.visits == 3
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_nothing_hostile_runs_without_a_wall(tmp_path, programs, monkeypatch) -> None:
    """On the process backend no program runs that would do its harm to this machine."""
    from orchestrator import composition  # noqa: PLC0415  composition, for this test only

    context, _ = selftest.prepare_context(composition.make_backend("process", tmp_path), Runtime.RUNC, tmp_path)
    monkeypatch.setattr(context.backend, "start", None)
    for program in programs.values():
        if program.expectation.kind in selftest.NEED_ISOLATION:
            outcome = selftest.run_program(program, context, removed=False)
            assert (outcome.verdict, outcome.evidence) == (Verdict.SKIPPED, selftest.NOT_ISOLATED)


def test_the_programs_are_where_the_command_looks(hostile) -> None:
    """In a checkout they lie among the tests."""
    from orchestrator import resources  # noqa: PLC0415  for this test only

    assert resources.hostile_programs_path() == hostile
    assert isinstance(hostile, Path)
