"""The adapter for submissions of the NIPS 2017 layout, which runs their entry script on files and speaks the protocol.

    python -m sparring_files [--labels-from 0|1]

It is a player like any other, started in the submission's folder. `metadata.json` there names the entry script:

    attack     ENTRY INPUT_FOLDER OUTPUT_FOLDER EPSILON     PNG in, PNG of the same names out
    defence    ENTRY INPUT_FOLDER OUTPUT_FILE               PNG in, lines `name.png,label` out

Each question is one call, in folders of its own that are removed afterwards. The script's output goes to standard
error. It needs only the standard library and NumPy, and Python 3.8 or newer. See docs/migrating-from-nips-2017.md.
"""

from __future__ import annotations

import os
import sys

# With -m, the submission's folder would come first in sys.path; only our modules may be imported. Beside this file are
# the helper and, in images, `packages` with NumPy, so that it also runs with -I, on an interpreter from sparring/base.
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib is not imported before the pipes are safe
sys.path[:] = [_HERE, *(place for place in sys.path if place not in ("", _HERE, os.getcwd()))]  # noqa: PTH109  the same
sys.path.append(os.path.join(os.path.dirname(_HERE), "packages"))  # noqa: PTH118, PTH120  the same
from sparring_player import Attack, Defence, Task, WrongReply, serve  # noqa: E402  after sys.path is ours

# isort: split
import contextlib  # noqa: E402  after the pipes are safe
import hashlib  # noqa: E402  after the pipes are safe
import json  # noqa: E402  after the pipes are safe
import re  # noqa: E402  after the pipes are safe
import shlex  # noqa: E402  after the pipes are safe
import shutil  # noqa: E402  after the pipes are safe
import signal  # noqa: E402  after the pipes are safe
import stat  # noqa: E402  after the pipes are safe
import subprocess  # noqa: E402  after the pipes are safe
import tempfile  # noqa: E402  after the pipes are safe
import time  # noqa: E402  after the pipes are safe
from collections.abc import Iterator  # noqa: E402  after the pipes are safe
from pathlib import Path  # noqa: E402  after the pipes are safe

import numpy as np  # noqa: E402  after the pipes are safe
from sparring_png import Unusable, read_png, write_png  # noqa: E402  after the pipes are safe

METADATA = "metadata.json"
SIDES = {"attack": "attack", "defense": "defence"}
"""The values of `type`, and the side that each plays."""
NAMED = 10
"""The most file names that a note lists."""
SPARE = 60.0
"""The most seconds of an attack's time limit that are reserved for reading its script's files."""


class EntryFailed(Exception):
    """The entry script failed; the message says how."""


def _bytes_of(path: Path, most: int) -> bytes:
    """Returns a regular file's content. Raises Unusable for anything else, or more than `most` bytes."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                raise Unusable(f"it is no plain file of at most {most} bytes")
            return file.read(most)
    except FileNotFoundError:
        raise Unusable("it is missing") from None
    except OSError as error:
        raise Unusable(f"it cannot be read: {error.strerror}") from None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class Entry:
    """A submission's entry script, as its metadata.json names it."""

    def __init__(self, folder: Path) -> None:
        found = json.loads((folder / METADATA).read_text("utf-8-sig"))
        self.side = SIDES.get(found.get("type"))
        self.name: str = found.get("entry_point", "")
        if self.side is None or not (folder / self.name).is_file():
            raise SystemExit(f"{METADATA}: no type out of {list(SIDES)}, or no entry_point that is here")
        self._folder, self._path = folder, folder / self.name
        self._home = tempfile.TemporaryDirectory(prefix="files-")

    @contextlib.contextmanager
    def call(self) -> Iterator[Path]:
        """Yields a folder for one call, with `input`, `output` and the script's `tmp`, and removes it afterwards."""
        place = Path(self._home.name) / "call"
        for name in ("input", "output", "tmp"):
            (place / name).mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)  # if it cannot be removed, the next call fails

    def run(self, place: Path, arguments: list, until: float = float("inf")) -> str:
        """Runs the script, and then ends its whole process group; `until` is a time of `time.monotonic()`.

        Returns the error: empty, an exit status other than 0, or that the script was still running.
        """
        surroundings = dict(os.environ, TMPDIR=str(place / "tmp"), HOME=str(place / "tmp"))
        if not sys.flags.isolated:  # `python` in the script is this interpreter, unless it is from sparring/base
            surroundings["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        command = [*self._words(), *(str(argument) for argument in arguments)]
        child = subprocess.Popen(
            command, cwd=self._folder, env=surroundings, stdin=subprocess.DEVNULL, start_new_session=True
        )
        ended = _ended(child.pid, until)
        # The script, or processes that it left: it was not reaped yet, so the id is still its own.
        os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        if not ended:
            return f"{self.name} was still running shortly before the time limit"
        if code < 0:
            return f"{self.name} was ended by signal {-code}" + (", often for want of memory" if code == -9 else "")  # noqa: PLR2004  SIGKILL
        return f"{self.name} ended with exit code {code}" if code else ""

    def _words(self) -> list:
        """Returns the command that starts the script: itself, or the interpreter of its first line if it lacks x."""
        with self._path.open("rb") as file:
            first = file.readline(256)
        if not first.startswith(b"#!") and first[:4] != b"\x7fELF":
            return ["/bin/sh", str(self._path)]
        if os.access(self._path, os.X_OK):
            return [str(self._path)]
        return [*shlex.split(first[2:].decode("utf-8", "replace")), str(self._path)]


def _ended(child: int, until: float) -> bool:
    """Waits for a child to end, without reaping it; returns whether it ended in time."""
    pause = 0.0005
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.05)
    return True


def _lay_out(place: Path, pixels: np.ndarray, names: list) -> list:
    """Writes a question's pictures into `place` under these names, and returns the names.

    They are not compressed if there is room for twice their size.
    """
    found = os.statvfs(place)
    level = 0 if 2 * pixels.nbytes <= found.f_bavail * found.f_frsize else 1
    for name, picture in sorted(zip(names, pixels), key=lambda pair: pair[0]):  # noqa: B905  Python 3.8
        (place / name).write_bytes(write_png(picture, level))
    return names


def _names_for_attack(pixels: np.ndarray, seed: int) -> list:
    """Returns a name for each picture, by position.

    A name says nothing about the picture, and the order of names nothing about positions: both come from the seed and
    the whole question. So the same question gets the same names, and an attack can be repeated.
    """
    whole = hashlib.sha256(b"%d " % seed + np.ascontiguousarray(pixels).tobytes()).digest()
    return [_name(whole + b"%d" % position) for position in range(len(pixels))]


def _names_for_defence(pixels: np.ndarray) -> list:
    """Returns a name for each picture, from the picture alone and how often it came before in this call.

    So a script that draws random numbers from names, or depends on their order, answers alike in every sandbox.
    """
    seen: dict = {}
    names = []
    for picture in pixels:
        values = np.ascontiguousarray(picture).tobytes()
        names.append(_name(b"%d " % seen.setdefault(values, 0) + values))
        seen[values] += 1
    return names


def _name(values: bytes) -> str:
    return hashlib.sha256(values).hexdigest()[:16] + ".png"


def _note(text: str) -> None:
    print(f"sparring_files: {text}", file=sys.stderr, flush=True)


def _adapted(task: Task, entry: Entry, side: str) -> None:
    if entry.side != side:
        raise WrongReply(f"{METADATA} says that this is no {side}")
    if task.shape[0] not in (1, 3):
        raise WrongReply(f"pictures of {task.shape[0]} channels are no PNG; 1 and 3 are")


class FilesAttack(Attack):
    """An attack of the NIPS 2017 layout. It delivers the pictures that its script wrote, at the latest by the limit."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.name = entry, entry.name

    def load(self, task: Task) -> None:
        """Keeps the task. The script is not started before there is a question."""
        _adapted(task, self.entry, "attack")
        self.task = task
        self.epsilon = whole_epsilon(task)
        _note(f"epsilon {task.epsilon:g} ({task.norm}) is passed as {self.epsilon}")

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple]:  # noqa: ARG002  the layout has none
        """Yields positions and candidates; then raises EntryFailed if a candidate is missing or unusable."""
        seconds = self.task.seconds * len(pixels) / self.task.batch
        until = time.monotonic() + seconds - min(seconds / 4, SPARE)
        with self.entry.call() as place:
            names = _lay_out(place / "input", pixels, _names_for_attack(pixels, self.task.seed))
            wrong = self.entry.run(place, [place / "input", place / "output", self.epsilon], until)
            bad = []
            most = 2 * pixels[0].size * 4 + 65536
            for position, name in enumerate(names):
                try:
                    candidate = read_png(_bytes_of(place / "output" / name, most), self.task.shape)
                except Unusable as reason:
                    bad.append(f"{name}: {reason}")
                else:
                    yield position, candidate
            extra = len({found.name for found in (place / "output").iterdir()} - set(names))
        if bad or wrong or extra:
            more = [f"and {len(bad) - NAMED} more"] if len(bad) > NAMED else []
            strange = [f"{extra} files that nobody asked for"] if extra else []
            _note("; ".join(([wrong] if wrong else []) + bad[:NAMED] + more + strange))
        if bad:
            raise EntryFailed(f"{wrong or self.entry.name}: {len(bad)} of {len(names)} pictures missing; {bad[0]}")


def whole_epsilon(task: Task) -> int:
    """Returns the budget in the layout's form: how many whole steps of 1/255 any value may move.

    It is rounded down, so that an attack that keeps it keeps the budget. For an L2 budget, it is the largest cube
    within the ball.
    """
    return int(task.epsilon if task.norm == "linf" else task.epsilon / float(np.prod(task.shape)) ** 0.5)


class FilesDefence(Defence):
    """A defence of the NIPS 2017 layout. Its script is called once for each question."""

    def __init__(self, entry: Entry, labels_from: int) -> None:
        self.entry, self.name, self._first = entry, entry.name, labels_from

    def load(self, task: Task) -> None:
        """Keeps the task. The script is not started before there is a question."""
        _adapted(task, self.entry, "defence")
        self.task = task

    def classify(self, pixels: np.ndarray) -> list:
        """Returns a label for each picture, None where the script wrote none.

        Raises:
            EntryFailed: the script ended with a status other than 0, or wrote no usable file.
            WrongReply: two labels for one picture, or one that is not a class.
        """
        with self.entry.call() as place:
            names = _lay_out(place / "input", pixels, _names_for_defence(pixels))
            target = place / "output" / "result.csv"
            if wrong := self.entry.run(place, [place / "input", target]):
                raise EntryFailed(wrong)
            try:
                text = _bytes_of(target, 2**20 + 256 * len(names)).decode("utf-8-sig", "replace")
            except Unusable as reason:
                raise EntryFailed(f"{self.entry.name} wrote no usable {target.name}: {reason}") from None
        labels = labels_in(text, names, len(self.task.classes), self._first)
        if silent := labels.count(None):
            _note(f"no label for {silent} of {len(names)} pictures")
        return labels


def labels_in(text: str, names: list, classes: int, first: int = 0) -> list:
    """Returns the label, from 0, for each of `names` in lines `name.png,label`; None where there is none.

    `first` is the number of the first class: if that is 1, 0 stands for ImageNet's background, which is not a class of
    a task, and counts as no label. Spaces, quotes, folders before a name and a missing `.png` are accepted; lines with
    other names are ignored, such as a heading.

    Raises:
        WrongReply: two labels for one picture, or one that is not a class.
    """
    asked = {name[: -len(".png")]: position for position, name in enumerate(names)}
    found: dict = {}
    for line in text.splitlines():
        name, *cells = (cell.strip().strip("\"'").strip() for cell in line.split(",")[:2])
        position = asked.get(re.sub(r"\.png$", "", name.rpartition("/")[2]))
        if position is None or not cells:
            continue
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", cells[0], re.ASCII):
            raise WrongReply(f"a label must be a whole number, got {cells[0][:40]!r}")
        label = int(cells[0]) - first
        if found.setdefault(position, label) != label:
            raise WrongReply(f"two labels for one picture: {found[position] + first} and {label + first}")
        if not 0 <= label < classes and not (first == 1 and label == -1):
            remedy = "; does it count from 1? say `labels_from: 1`" if label == classes and not first else ""
            raise WrongReply(f"label {label + first} is none of {first} to {classes - 1 + first}{remedy}")
    return [None if found.get(position, -1) < 0 else found[position] for position in range(len(names))]


def main(arguments: list) -> None:
    """Serves the submission in this folder."""
    if arguments not in ([], ["--labels-from", "0"], ["--labels-from", "1"]):
        raise SystemExit("usage: python -m sparring_files [--labels-from 0|1]")
    entry = Entry(Path.cwd())
    serve(FilesAttack(entry) if entry.side == "attack" else FilesDefence(entry, int(arguments[-1]) if arguments else 0))


if __name__ == "__main__":
    main(sys.argv[1:])
