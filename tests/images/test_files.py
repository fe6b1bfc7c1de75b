"""The adapter for submissions of the NIPS 2017 layout: what it asks of a script, and what it makes of the answers."""

import ast
import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from orchestrator.domain.tasks import Budget, Norm
from orchestrator.errors import PlayerReported
from orchestrator.intake import nips2017_layout
from orchestrator.measures import norms
from orchestrator.protocol.messages import Role

HELPERS = Path(__file__).parents[2] / "images" / "_base" / "python"
COMMAND = [sys.executable, *nips2017_layout.adapter_command()[1:]]
TYPES = {side: word for word, side in nips2017_layout.SIDES.items()}
SECONDS = 10
GREYS = np.repeat(np.arange(5, dtype=np.uint8), 64).reshape(5, 1, 8, 8)
"""Five pictures, each of one value: its position."""
PYTHON = """#!/usr/bin/env python
import os, signal, subprocess, sys, time
from pathlib import Path
from PIL import Image
source, target, last = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
values = {path.name: Image.open(path).tobytes()[0] for path in sorted(source.iterdir())}
def save(name, image):
    image.save(target / name)
def shifted(name, by=1):
    save(name, Image.open(source / name).point(lambda value: value + by))
"""
"""What scripts begin with. It imports no NumPy, which takes longer than all that they do."""


@pytest.fixture
def layout(tmp_path, start, monkeypatch):
    """Returns a function that starts a folder of the layout with this script, with `hello` answered."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def begin(script: str, role: Role, *, command: list[str] = COMMAND, greet: bool = True, **options):
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "metadata.json").write_text(json.dumps({"type": TYPES[role], "entry_point": "go"}))
        (folder / "go").write_text(script)
        player = start(command, folder, role, keep_log=True, **options)
        if greet:
            player.hello()
        return player

    return begin


@pytest.fixture
def attack(layout):
    """Returns a function that starts an attack whose script ends with these lines of Python."""
    return lambda body, **options: layout(PYTHON + body, Role.ATTACK, **options)


@pytest.fixture
def answered(layout, tmp_path):
    """Returns a function that asks a defence whose file has this text, {n} being the name of the picture of value n."""

    def ask(text: str, *flags: str, pixels: np.ndarray = GREYS):
        body = "text = Path('answer.txt').read_bytes()\nfor name, value in values.items():\n"
        body += "    text = text.replace(b'{%d}' % value, name.encode())\ntarget.write_bytes(text)\n"
        player = layout(PYTHON + body, Role.DEFENCE, command=[*COMMAND, *flags])
        (tmp_path / "mine" / "answer.txt").write_text(text)
        return player.classify(pixels)

    return ask


def delivered(player, pixels: np.ndarray) -> tuple[set[int], str]:
    """Returns the positions that an attack delivered, and the text of its fault, if there was one."""
    found: set[int] = set()
    try:
        for replies in player.each(player.session.ask_perturb(pixels, None)):
            for reply in replies:
                assert np.array_equal(reply.pixels, pixels[list(reply.index)] + 1)
                found |= set(reply.index)
    except PlayerReported as fault:
        return found, str(fault)
    return found, ""


@contextmanager
def within(seconds: float):
    """Asserts that what is done inside takes no longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def gone(process: int) -> bool:
    """Returns whether a process ends within some seconds."""
    for _ in range(100 * SECONDS):
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("name", ["sparring_files.py", "sparring_png.py"])
def test_the_adapter_is_python_3_8_with_numpy_alone(name):
    """It parses as Python 3.8 and imports the standard library, NumPy and what lies beside it; Pillow where it is."""
    tree = ast.parse((HELPERS / name).read_text(), feature_version=(3, 8))
    for node in tree.body:
        if isinstance(node, ast.Try) and ast.unparse(node.handlers[0].type) == "ImportError":
            node.body = []
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - sys.stdlib_module_names <= {"numpy", "sparring_player", "sparring_png"}


@pytest.mark.slow
def test_an_attack_gets_pictures_and_gives_candidates(attack):
    """The script finds the batch as PNGs, writes others under their names, and both are exact, grey and in colour."""
    for shape in ([1, 8, 8], [3, 5, 7]):
        player = attack("for name in values: shifted(name)\n", shape=shape)
        pixels = np.random.default_rng(1).integers(0, 255, (64, *shape), np.uint8)
        assert delivered(player, pixels) == (set(range(64)), "")
        assert player.leave() == 0


@pytest.mark.parametrize(
    ("norm", "epsilon", "shape", "told"),
    [
        ("linf", 8, [3, 32, 32], 8),
        ("linf", 2.5, [1, 8, 8], 2),
        ("linf", 0.5, [1, 8, 8], 0),
        ("l2", 40.5, [1, 8, 8], 5),
        ("l2", 128, [3, 32, 32], 2),
    ],
)
def test_the_budget_is_told_as_a_whole_number(attack, norm, epsilon, shape, told):
    """Epsilon is rounded down; of an L2 budget it is the largest that keeps it whichever values are moved."""
    player = attack(
        "for name in values: shifted(name, int(last[0]))\n",
        norm=norm,
        epsilon=epsilon,
        shape=shape,
    )
    pixels = np.full((2, *shape), 100, np.uint8)
    made = player.perturb(pixels, None)
    assert (made.astype(int) - pixels == told).all()
    assert norms.within_budget(pixels, made, Budget(Norm(norm), epsilon)).all()
    assert not norms.within_budget(pixels, made + np.uint8(1), Budget(Norm(norm), epsilon)).any()
    assert f"epsilon {epsilon:g} ({norm}) is passed as {told}" in player.log.read_text()


@pytest.mark.slow
def test_names_tell_nothing(attack):
    """Names are of one form and in no order of positions; the same question has the same ones, another has others."""
    body = "print('names', *sorted(values, key=values.get))\nfor name in values: shifted(name)\n"
    logs = []
    for seed in (1, 2):
        player = attack(body, seed=seed)
        for pixels in (GREYS, GREYS[::-1], GREYS + 1, GREYS):
            delivered(player, pixels)
        assert player.leave() == 0
        lines = [line.split()[1:] for line in player.log.read_text().splitlines() if line.startswith("names")]
        assert lines[0] == lines[3]
        logs += lines[:3]
    names = [name for line in logs for name in line]
    assert len(set(names)) == len(names) == 30
    assert all(len(name) == 20 and set(name[:16]) <= set("0123456789abcdef") for name in names)
    assert len({tuple(np.argsort(line)) for line in logs}) > 1, "positions could be told from the order of names"


@pytest.mark.slow
def test_a_defences_names_come_from_the_picture(layout):
    """A script that takes its chance from names answers a picture alike whatever its seed and its neighbours."""
    body = "print('names', *sorted(values, key=values.get))\ntarget.write_text(''.join(f'{n},1\\n' for n in values))\n"
    logs = []
    for seed in (1, 2**53):
        player = layout(PYTHON + body, Role.DEFENCE, seed=seed)
        for pixels in (GREYS, GREYS[::-1], GREYS[:1]):
            player.classify(pixels)
        assert player.leave() == 0
        logs.append([line.split()[1:] for line in player.log.read_text().splitlines() if line.startswith("names")])
    assert logs[0] == logs[1]
    whole, turned, first = logs[0]
    assert whole == turned
    assert first[0] in whole
    assert len(set(whole)) == len(GREYS)


@pytest.mark.parametrize(
    ("instead", "reason"),
    [
        ("pass", "it is missing"),
        ("save(name, Image.new('L', (8, 9)))", "it is 8 x 9, not 8 x 8"),
        ("(target / name).write_bytes(b'')", "it is no PNG"),
        ("(target / name).write_bytes((source / name).read_bytes()[:-20])", "it ends in the middle"),
        ("save(name.replace('.png', '.gif'), Image.new('L', (8, 8)))", "it is missing"),
        ("(target / name).symlink_to(source / name)", "it cannot be read: Too many levels of symbolic links"),
        ("os.mkfifo(target / name)", "it is no plain file"),
        ("(target / name).mkdir()", "it cannot be read: Is a directory"),
        ("(target / name).write_bytes(bytes(10 ** 6))", "it is no plain file of at most"),
        ("save(name, Image.new('RGB', (8, 8), (1, 2, 3)))", "it has colours, and the task is grey"),
    ],
)
def test_a_picture_that_cannot_be_used_is_missing_alone(attack, instead, reason):
    """One picture that cannot be delivered takes no other with it, and the fault says what was wrong."""
    player = attack(
        f"for name, value in values.items():\n    if value == 3:\n        {instead}\n    else:\n        shifted(name)\n"
    )
    found, fault = delivered(player, GREYS)
    assert found == {0, 1, 2, 4}
    assert "EntryFailed: go: 1 of 5 pictures missing; " in fault
    assert reason in fault


def test_files_that_nobody_asked_for_are_passed_over(attack):
    """What else lies in the output folder is counted in the log, and that is all."""
    player = attack("for name in values: shifted(name)\nsave('more.png', Image.new('L', (8, 8)))\n")
    assert delivered(player, GREYS) == (set(range(5)), "")
    assert player.leave() == 0
    assert "1 files that nobody asked for" in player.log.read_text()


@pytest.mark.slow
def test_an_attack_that_ends_badly_keeps_what_it_wrote(attack):
    """Its script ends with another code than 0: what it wrote counts, and only what is missing makes a fault."""
    player = attack("for name in values: values[name] and shifted(name)\nsys.exit(3)\n")
    assert delivered(player, GREYS[1:]) == ({0, 1, 2, 3}, "")
    found, fault = delivered(player, GREYS)
    assert found == {1, 2, 3, 4}
    assert "go ended with exit code 3: 1 of 5 pictures missing" in fault.replace("; ", ": ")
    assert "go ended with exit code 3" in player.log.read_text()


@pytest.mark.slow
def test_an_attack_that_takes_too_long_keeps_what_it_wrote(attack, tmp_path):
    """Shortly before the limit, what is there is delivered, and the script is ended with what it had started."""
    body = "for name in values: values[name] < 2 and shifted(name)\n"
    body += "other = subprocess.Popen(['sleep', '1000'])\n"
    body += "Path('pids').write_text(f'{os.getpid()} {other.pid}')\ntime.sleep(1000)\n"
    player = attack(body, step_seconds=64 * 0.8)
    with within(40):  # five of 64 pictures have four seconds, all of them would have 51
        found, fault = delivered(player, GREYS)
    assert found == {0, 1}
    assert "go was still running shortly before the time limit" in fault
    assert all(gone(int(process)) for process in (tmp_path / "mine" / "pids").read_text().split())


def test_what_a_script_leaves_running_is_ended(attack, tmp_path):
    """A process that outlives the script is ended with it."""
    body = "for name in values: shifted(name)\n"
    body += "Path('pids').write_text(str(subprocess.Popen(['sleep', '1000']).pid))\n"
    assert delivered(attack(body), GREYS) == (set(range(5)), "")
    assert gone(int((tmp_path / "mine" / "pids").read_text()))


def test_a_script_that_is_killed_is_named(attack):
    """A signal that ends the script is in the fault."""
    assert (
        "go was ended by signal 9, often for want of memory" in delivered(attack("os.kill(os.getpid(), 9)\n"), GREYS)[1]
    )


@pytest.mark.slow
def test_nothing_of_a_call_outlives_it(attack, tmp_path):
    """What a script writes to TMPDIR and HOME is gone at the next call, and after the last nothing is left."""
    body = "seen = [p for p in (Path(os.environ['TMPDIR']), Path.home()) if any(p.iterdir())]\n"
    body += "(Path.home() / 'kept').write_text('x')\nfor name in values: seen or shifted(name)\n"
    player = attack(body)
    for _ in range(3):
        assert delivered(player, GREYS) == (set(range(5)), "")
    assert player.leave() == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_script_talks_to_the_log_only(attack):
    """What it prints is in the log, and standard input has nothing for it."""
    player = attack("print('loud', repr(sys.stdin.read()), flush=True)\nfor name in values: shifted(name)\n")
    assert delivered(player, GREYS) == (set(range(5)), "")
    assert player.leave() == 0
    assert "loud ''" in player.log.read_text()


def test_the_submissions_modules_are_not_ours(attack, tmp_path):
    """Files in the folder that are called like modules of the adapter are not taken for them."""
    (tmp_path / "mine").mkdir()
    for name in ("numpy", "json", "shlex", "sparring_player", "sparring_png"):
        (tmp_path / "mine" / f"{name}.py").write_text("raise SystemExit('theirs')\n")
    player = attack("", greet=False)
    (tmp_path / "mine" / "go").write_text('#!/bin/sh\ncp "$1"/* "$2"/\n')
    player.hello()
    assert np.array_equal(player.perturb(GREYS, None), GREYS)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "#!/bin/sh\n", "#!/usr/bin/env -S sh -e\n"])
@pytest.mark.parametrize("executable", [True, False])
def test_a_script_needs_no_x_bit(layout, tmp_path, first, executable):
    """It is started as its first line says, by the shell where that says nothing, with the x bit and without, here."""
    player = layout(f'{first}test "$PWD" = "{tmp_path}/mine" && cp "$1"/* "$2"/\n', Role.ATTACK)
    (tmp_path / "mine" / "go").chmod(0o755 if executable else 0o644)
    assert np.array_equal(player.perturb(GREYS, None), GREYS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("{0},0\n{1},1\n{2},2\n{3},3\n{4},9\n", [0, 1, 2, 3, 9]),
        ("{4},9\n{2},2\n{0},0\n{1},1\n{3},3", [0, 1, 2, 3, 9]),
        ("\ufeffimage,label\r\n{0},0\r\n{1},1\r\n", [0, 1, None, None, None]),
        (' {0} , 5 \n\n"{1}","6"\n./{2},7\n/in/{3},+8,0.93\n', [5, 6, 7, 8, None]),
        ("{0},5\n{0},5\nother.png,77\n{1}\n", [5, None, None, None, None]),
        ("", [None] * 5),
        ("\0\0\0\n\ud7ff\n{4},1", [None, None, None, None, 1]),
    ],
)
def test_a_defence_answers_in_lines(answered, text, labels):
    """Lines come in any order, with a heading, spaces, quotes or folders; a picture without a line is abstained on."""
    assert answered(text) == labels


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{0},seven", "a label must be a whole number, got 'seven'"),
        ("{0},", "a label must be a whole number, got ''"),
        ("{0},7.0", "a label must be a whole number, got '7.0'"),
        ("{0},10", "label 10 is none of 0 to 9; does it count from 1? say `labels_from: 1`"),
        ("{0},11", "label 11 is none of 0 to 9"),
        ("{0},-1", "label -1 is none of 0 to 9"),
        ("{0},1\n{0},2", "two labels for one picture: 1 and 2"),
    ],
)
def test_a_malformed_answer_is_a_fault(answered, text, reason):
    """A line that names a picture and gives it no class, or another one, is a malformed answer (A7)."""
    with pytest.raises(PlayerReported) as caught:
        answered(text)
    assert reason in str(caught.value)


@pytest.mark.slow
def test_classes_may_be_counted_from_one(answered):
    """With --labels-from 1 the first class is 1, and 0, ImageNet's background, is an abstention."""
    assert answered("{0},1\n{1},10\n{2},0", "--labels-from", "1") == [0, 9, None, None, None]
    with pytest.raises(PlayerReported, match="label 11 is none of 1 to 10"):
        answered("{0},11", "--labels-from", "1")


@pytest.mark.slow
def test_a_defence_sees_one_call_for_each_question(layout):
    """The folder holds the pictures of the question and no others."""
    body = "target.write_text(''.join(f'{name},{len(values)}\\n' for name in values))\n"
    player = layout(PYTHON + body, Role.DEFENCE)
    assert [player.classify(GREYS[place : place + 1]) for place in range(3)] == [[1]] * 3
    assert player.classify(GREYS) == [5] * 5


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "EntryFailed: go wrote no usable result.csv: it is missing"),
        ("target.mkdir()", "it cannot be read: Is a directory"),
        ("target.write_bytes(bytes(2 ** 21))", "it is no plain file of at most"),
        (
            "target.write_text(''.join(f'{name},1' for name in values))\nsys.exit(4)",
            "EntryFailed: go ended with exit code 4",
        ),
    ],
)
def test_a_defence_that_fails_is_at_fault(layout, body, reason):
    """No file, or a status other than 0, is a fault, whatever else it wrote."""
    player = layout(PYTHON + body, Role.DEFENCE)
    with pytest.raises(PlayerReported) as caught:
        player.classify(GREYS[:1])
    assert reason in str(caught.value)


def test_the_other_side_is_declined(layout, tmp_path):
    """A folder that is asked to play the side that it does not play says so at `hello`."""
    player = layout("", Role.ATTACK, greet=False)
    player.close()
    (tmp_path / "mine" / "metadata.json").write_text(json.dumps({"type": "attack", "entry_point": "go"}))
    other = type(player)(COMMAND, tmp_path / "mine", Role.DEFENCE)
    with pytest.raises(PlayerReported, match=r"plays defence and needs a method classify"):
        other.hello()
    other.close()


@pytest.mark.parametrize(
    ("arguments", "metadata", "said"),
    [
        (["--labels-from", "2"], {"type": "attack", "entry_point": "go"}, "usage: python -m sparring_files"),
        ([], {"type": "targeted_attack", "entry_point": "go"}, "no type out of"),
        ([], {"type": "attack", "entry_point": "come"}, "no entry_point that is here"),
    ],
)
def test_what_it_cannot_start_it_says(layout, tmp_path, arguments, metadata, said):
    """A wrong argument or a wrong metadata.json ends it with the reason in the log."""
    (tmp_path / "mine").mkdir()
    player = layout("", Role.ATTACK, greet=False)
    player.close()
    (tmp_path / "mine" / "metadata.json").write_text(json.dumps(metadata))
    other = type(player)([*COMMAND, *arguments], tmp_path / "mine", Role.ATTACK, keep_log=True)
    assert other.process.wait(SECONDS) == 1
    assert said in other.log.read_text()
    other.close()


@pytest.mark.slow
def test_an_interpreter_of_its_own_leaves_the_scripts_path_alone(layout):
    """With -I the adapter finds its modules beside itself, and `python` is to the script what the image says."""
    for command, changed in ((COMMAND, True), ([sys.executable, "-I", str(HELPERS / "sparring_files.py")], False)):
        player = layout('#!/bin/sh\necho path "$PATH"; cp "$1"/* "$2"/\n', Role.ATTACK, command=command)
        assert np.array_equal(player.perturb(GREYS, None), GREYS)
        assert player.leave() == 0
        (line,) = [line for line in player.log.read_text().splitlines() if line.startswith("path ")]
        ours = [str(Path(sys.executable).parent)] if changed else []
        assert line.split()[1] == os.pathsep.join([*ours, os.environ["PATH"]])
