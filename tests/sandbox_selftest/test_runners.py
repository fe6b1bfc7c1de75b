"""The runners of `protocol`, `upload`, `ending` and `image`: what they count as harm, and what they do not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator import composition
from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, InfrastructureFault, Rejected, SandboxLost
from orchestrator.sandbox_selftest import endings, harm_report, images, protocol, selftest, uploads
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Expectation, Kind, Program, Weakness, read_catalogue
from orchestrator.sandboxes.base import Image, SandboxSpec

HONEST = "from _frames import ready, serve\nready()\nserve()\n"


@pytest.fixture
def unisolated(tmp_path):
    """The self-test without a wall, for programs that do no harm."""
    return selftest.prepare_context(
        composition.make_backend("process", tmp_path / "kept", allow_unisolated=True), Runtime.RUNC, tmp_path
    )[0]


@pytest.fixture
def make(tmp_path, hostile):
    """Returns a function that makes a program of these files, beside what all programs share."""

    def make(kind, files, *, removed=None, **more) -> Program:
        programs = tmp_path / "programs"
        folder = programs / "program"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        for shared in hostile.glob("_*.py"):
            (programs / shared.name).write_bytes(shared.read_bytes())
        how = {"removed": removed} if removed else {"exception": "it is a test"}
        described = {"family": "protocol", "attempt": "nothing at all", "gain": "nothing", "control": "none"}
        expectation = Expectation(kind=kind, contained={}, **described, **how, **more)
        return Program(name=f"test-{kind}", folder=folder, expectation=expectation)

    return make


@pytest.mark.parametrize(
    "weaker", [w for w in Weakness if w in protocol.SESSION_TYPES and w not in (Weakness.READING, Weakness.DEADLINE)]
)
def test_an_honest_player_does_no_harm_however_careless_the_session(make, unisolated, weaker):
    """Harm comes from what the program does, not from what the runner takes away."""
    program = make("protocol", {"player.py": HONEST}, removed={"weakness": weaker, "expected": {}}, question_count=3)
    for removed in (False, True):
        seen = protocol.run(program, unisolated, removed=removed)
        assert (seen.harm, seen.fault) == (False, None), seen.evidence


def test_a_fault_carries_its_reason(make, unisolated):
    """A protocol fault is told with its reason, any other by its code."""
    noise = make("protocol", {"player.py": "print('hello')\n"})
    assert protocol.run(noise, unisolated, removed=False).fault == "protocol/magic"
    leaving = make("protocol", {"player.py": "raise SystemExit(3)\n"})
    assert protocol.run(leaving, unisolated, removed=False).fault == "died"


def test_a_lie_that_is_accepted_is_harm(make, unisolated):
    """A label that no honest player gives counts, whoever let it through."""
    lie = "from _frames import LIE, answers, ask, ready, write\nready()\nh, _ = ask()\nwrite(answers(h['id'], LIE))\n"
    seen = protocol.run(make("protocol", {"player.py": lie}), unisolated, removed=False)
    assert seen.harm
    assert "accepted 7, an honest player says 1" in seen.evidence


class RecordingBackend:
    """Starts nothing, and keeps what was to be started."""

    name = "recording"

    def __init__(self) -> None:
        self.specs: list[SandboxSpec] = []

    def start(self, spec):
        """Keeps the order and fails as a machine would."""
        self.specs.append(spec)
        raise SandboxLost("nothing is started here")


@pytest.mark.parametrize("device", ["GPU-1", None])
@pytest.mark.parametrize("kind", [Kind.SANDBOX, Kind.PAIR, Kind.PROTOCOL, Kind.ENDING], ids=str)
def test_every_program_gets_the_gpu(kind, device, programs, tmp_path):
    """With --gpu every kind of program is started with the device, and otherwise none is."""
    program = next(each for each in programs.values() if each.expectation.kind is kind)
    backend = RecordingBackend()
    context = Context(backend, Image("sha256:" + "ab" * 32, "base"), Runtime.RUNC, tmp_path, device=device)
    selftest.run_program(program, context, removed=False)
    assert {spec.device for spec in backend.specs} == {device}


def test_a_report_is_the_last_line_that_is_one():
    """Anything else a program writes is passed over; its words are made printable."""
    assert harm_report.parse_report(b'{"harm": true}\n{"harm": false, "evidence": "a\\u001b"}\nnoise\n') == (
        False,
        "a\\x1b",
    )
    for nothing in (b"", b"noise", b'{"harm": "yes"}', b"[1]", b"[" * 100_000, b"\xff\xfe"):
        assert harm_report.parse_report(nothing) == (None, "")


GOOD = """
import io, sys, zipfile
from pathlib import Path
from PIL import Image
out = io.BytesIO()
Image.new("L", (4, 4)).save(out, "PNG")
with zipfile.ZipFile(Path(sys.argv[1], "upload.zip"), "w") as archive:
    archive.writestr("label.txt", "0.png 0\\n1.png 1\\n")
    archive.writestr("images/0.png", out.getvalue())
    archive.writestr("images/1.png", out.getvalue())
"""


@pytest.mark.slow
def test_a_good_upload_is_read(make, unisolated):
    """Nothing is refused and no harm seen of an honest upload, with or without the control."""
    naive = 'print(\'{"harm": false, "evidence": "fine"}\')\n'
    program = make("upload", {"make.py": GOOD, "naive.py": naive}, removed={"bypass": True, "expected": {}})
    contained = uploads.run(program, unisolated, removed=False)
    assert (contained.harm, contained.refused, contained.evidence) == (False, [], ["read as 32 bytes of pictures"])
    assert uploads.run(program, unisolated, removed=True).harm is False


def test_what_is_written_outside_its_place_is_harm(make, unisolated):
    """The runner looks for itself; it does not take the reader's word."""
    naive = "import sys, pathlib\npathlib.Path(sys.argv[1]).parent.joinpath('escaped').touch()\n"
    program = make("upload", {"make.py": GOOD, "naive.py": naive}, removed={"bypass": True, "expected": {}})
    assert uploads.run(program, unisolated, removed=True).harm is True


def test_an_upload_that_cannot_be_made_proves_nothing(make, unisolated):
    """A failing make.py, one that writes nothing and one that fills the disk are our fault, not a contained program."""
    greedy = "import sys\nopen(sys.argv[1] + '/upload.zip', 'wb').write(bytes(70 * 1024**2))\n"
    for text in ("raise SystemExit(2)\n", "", greedy):
        with pytest.raises(InfrastructureFault):
            uploads.run(make("upload", {"make.py": text}), unisolated, removed=False)


@pytest.mark.slow
def test_nothing_of_an_upload_is_left(make, unisolated):
    """The folder of an upload goes with it."""
    uploads.run(make("upload", {"make.py": GOOD}), unisolated, removed=False)
    assert list(unisolated.workspace.glob("upload-*")) == []


QUIET = "import os, time\nos.write(1, b'up')\ntime.sleep(60)\n"


@pytest.mark.docker
@pytest.mark.parametrize("weaker", ["terminate", "process", "group"])
def test_a_program_that_can_be_ended_does_no_harm_however_it_is_ended(make, context, weaker):
    """A careless end is enough for a program that does not resist: the harm of the others is their own."""
    program = make("ending", {"program.py": QUIET}, removed={"weakness": weaker, "expected": {}})
    seen = endings.run(program, context, removed=True)
    assert seen.harm is False, seen.evidence


@pytest.mark.docker
def test_what_is_ended_is_looked_for(make, context):
    """A program that runs is ended by us, and nothing of it is found."""
    seen = endings.run(make("ending", {"program.py": QUIET}), context, removed=False)
    assert (seen.harm, seen.ending) == (False, "stopped")
    assert seen.seconds < endings.MAX_STOP_SECONDS


def test_a_program_that_never_comes_up_shows_nothing(make, unisolated, monkeypatch):
    """It is our fault, not a contained program: whatever it would have done it has not done yet."""
    monkeypatch.setattr(endings, "_READY_SECONDS", 0.5)
    late = "import time\ntime.sleep(60)\n"
    with pytest.raises(InfrastructureFault, match="did not print `up` within"):
        endings.run(make("ending", {"program.py": late}), unisolated, removed=False)


STUCK = "import os, sys, time\ntime.sleep(float(sys.argv[2]))\nwhile True: os.write(1, bytes(4096))"


@pytest.mark.slow
def test_a_program_is_stuck_when_nothing_of_it_is_taken_any_more(monkeypatch):
    """A writer into a pipe that nobody reads is waited for until it hangs, also when it begins late."""
    monkeypatch.setattr(endings, "_STUCK_POLL_SECONDS", 0.1)
    word, late = "another-word-of-mine", 1.0
    with subprocess.Popen([sys.executable, "-c", STUCK, word, str(late)], stdout=subprocess.PIPE) as child:
        while Path(f"/proc/{child.pid}/cmdline").read_bytes().count(b"\0") < 5:
            time.sleep(0.01)
        before = endings._bytes_written(word)
        endings._wait_until_stuck(word)
        assert endings._bytes_written(word) == endings._bytes_written(word) > (before or 0)
        assert "pipe_write" in Path(f"/proc/{child.pid}/wchan").read_text()
        child.kill()


def test_a_survivor_is_found():
    """The search sees a process of this machine by a word of its command line, and only while it lives."""
    command = ["/bin/sh", "-c", "echo up; read x", "word-of-mine"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"up\n"  # only now has it a command line of its own
        assert endings._find_processes("word-of-mine") == [child.pid]
        child.kill()
    assert endings._find_processes("word-of-mine") == []


@pytest.mark.docker
def test_an_image_that_cannot_be_built_is_ours(make, context):
    """It is never taken for a contained program, and leaves no image."""
    program = make("image", {"Dockerfile": "FROM sparring/base:cpu\nRUN false\n"})
    with pytest.raises(BackendUnavailable, match="cannot build"):
        images.run(program, context, removed=False)


@pytest.mark.docker
def test_a_good_image_is_admitted_and_removed(make, context):
    """Nothing is refused, its report is heard, and its tag is gone afterwards."""
    recipe = 'FROM sparring/base:cpu\nCOPY say.py /say.py\nENTRYPOINT ["python3", "/say.py"]\n'
    files = {"Dockerfile": recipe, "say.py": "print('{\"harm\": false}')\n"}
    program = make("image", files, removed={"bypass": True, "expected": {}})
    for removed, refused in ((False, []), (True, None)):
        seen = images.run(program, context, removed=removed)
        assert (seen.harm, seen.refused) == (False, refused), seen.evidence
    listed = subprocess.run(["docker", "images", "-q", "sparring-selftest/test-image"], capture_output=True, check=True)
    assert listed.stdout == b""


def test_unknown_fields_of_an_expectation_are_refused(tmp_path):
    """A word that no runner knows is an error of the file, not a control that is silently kept."""
    folder = tmp_path / "p"
    folder.mkdir()
    text = "family: text\nkind: protocol\nattempt: something long\ngain: something\ncontrol: xx\ncontained: {}\n"
    (folder / "expect.yaml").write_text(f"{text}removed: {{weakness: everything, expected: {{}}}}\n", "utf-8")
    with pytest.raises(Rejected, match="weakness"):
        read_catalogue(Path(tmp_path))
