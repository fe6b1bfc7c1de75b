"""A player in Python that runs in this process, so that debuggers and tests reach it; the gate and the limits apply.

The player's own code runs in the thread that asks. The orchestrator's side of the conversation runs in another one for
as long as a question is open, so that attacks can query. Time limits are judged when the player's code returns: nothing
can end it before.
"""

import gc
import importlib
import os
import queue
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from orchestrator import resources
from orchestrator.application.submissions import self_check, trial_match_setup
from orchestrator.application.submissions.self_check import CheckSetup, CheckSubject
from orchestrator.domain.samples import AdversarialExamples, Pixels, Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import UsageError
from orchestrator.execution.player import Player
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake import manifest
from orchestrator.intake.compliance.stand_in_defence import stand_in_broker
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import AnswersReply, Session
from orchestrator.sandboxes.base import POLL_SECONDS, Ending, Exit, never_cancelled

_HELPER = "sparring_player"
T = TypeVar("T")


class InProcessPlayer:
    """A player whose code runs in this process. Made by `open_in_process_player`.

    What the player's own code raises is raised as it is.
    """

    def __init__(self, context: RoundContext, submission: Submission, helper: ModuleType, player: Any) -> None:
        self._context, self._submission = context, submission
        self._helper, self._speaker = helper, helper._Speaker(player)  # noqa: SLF001  shipped with this software
        self._pipes = _Pipes()
        helper._questions, helper._answers = self._pipes, self._pipes  # type: ignore[attr-defined]  # noqa: SLF001
        queries = context.queries_header() if self.side is Side.ATTACK else None
        session = Session(Role(self.side.value), len(context.task.classes), context.payload_limit, queries=queries)
        self._player = Player(self._pipes, session, context.clock, context.cancelled.is_set)

    @property
    def side(self) -> Side:
        """Whether it attacks or defends."""
        return self._submission.side

    @property
    def samples(self) -> Samples:
        """The contest's public pictures: those of the task's `sample`, else of its data set, at most 50."""
        return self._context.samples

    def say_hello(self) -> None:
        """Has the player load. Raises SubmissionFault."""
        context, limits = self._context, self._context.limits
        attack = self.side is Side.ATTACK
        step = (
            (limits.perturb_seconds, limits.perturb_batch)
            if attack
            else (limits.classify_seconds, limits.classify_batch)
        )
        seed = context.attack_seed(self._submission) if attack else context.seed
        self._run(lambda: self._player.say_hello(context.task_header(), context.limits_header(*step), seed))

    def perturb(self, pixels: Pixels | None = None, labels: list[int] | None = None) -> AdversarialExamples:
        """Returns what an attack delivers for pixels u8 [n, c, h, w], after the gate (rules A8, A14).

        Without pixels it is asked about the first of the contest's public pictures, as many as a question may have.
        Labels of own pixels may be left away where the contest hides them.

        Raises:
            SubmissionFault: the time for so many pictures was over (A15), or a reply breaks the protocol.
            UsageError: it is a defence, or labels are missing.
        """
        context = self._context
        if self.side is not Side.ATTACK:
            raise UsageError("a defence perturbs nothing; ask classify")
        if pixels is None:
            some = self.samples.first(min(len(self.samples), context.limits.perturb_batch))
            pixels, labels = some.pixels, [int(label) for label in some.labels]
        elif context.labels and labels is None:
            raise UsageError("this contest tells attacks the labels: give them too")
        truth = labels if labels is not None else [0] * len(pixels)
        broker = stand_in_broker(context, pixels, np.array(truth, np.int64))
        gate = context.gate()
        examples = gate.missing_all(pixels)

        def ask() -> None:
            told = list(truth) if context.labels else None
            for reply in self._player.perturb(pixels, told, context.limits, None if broker is None else broker.answer):
                gate.admit(examples, pixels, reply.index, reply.pixels)

        self._run(ask)
        return examples

    def classify(self, pixels: Pixels | None = None) -> AnswersReply:
        """Returns a defence's labels and scores for pixels u8 [n, c, h, w], asked about together.

        Without pixels it is asked about the first of the contest's public pictures, as many as a question may have.

        Raises:
            SubmissionFault: the time was over, or the reply breaks the protocol.
            UsageError: it is an attack.
        """
        if self.side is not Side.DEFENCE:
            raise UsageError("an attack classifies nothing; ask perturb")
        limits = self._context.limits
        asked = self.samples.first(limits.classify_batch).pixels if pixels is None else pixels
        seeds = self._context.seeds_for("", asked)
        return self._run(lambda: self._player.classify(asked, limits, seeds))

    def _run(self, ask: Callable[[], T]) -> T:
        """Runs `ask` in another thread, and the player's code that it asks for in this one."""
        answer: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def orchestrate() -> None:
            try:
                answer.put((True, ask()))
            except BaseException as error:  # noqa: BLE001  raised where it is waited for
                answer.put((False, error))
            finally:
                self._pipes.end_question()

        thread = threading.Thread(target=orchestrate, name="orchestrator", daemon=True)
        thread.start()
        try:
            while (frame := self._helper._read()) is not None:  # noqa: SLF001  shipped with this software
                self._speaker.answer(*frame)
        finally:  # where the player's code raised, the other thread learns that no reply will come
            if answer.empty():
                self._pipes.stop()
            thread.join()
        done, value = answer.get()
        if not done:
            raise value
        result: T = value
        return result


class _Pipes:
    """Both pipes of a player in memory: a sandbox for the orchestrator's side, two files for the helper."""

    def __init__(self) -> None:
        self._to_player: queue.Queue[bytes | None] = queue.Queue()
        self._from_player: queue.Queue[bytes] = queue.Queue()
        self._unread = b""

    # what the orchestrator's side calls

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:  # noqa: ARG002
        self._to_player.put(data)
        return True

    def receive(self, deadline: float) -> bytes | None:  # noqa: ARG002  a debugger's clock may stand still
        try:
            return self._from_player.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return None

    def stop(self) -> Exit:
        self._from_player.put(b"")
        return Exit(Ending.STOPPED)

    def end_question(self) -> None:
        """Has the helper's next reading find the end."""
        self._to_player.put(None)

    # what the helper calls

    def read(self, count: int) -> bytes:
        while len(self._unread) < count:
            data = self._to_player.get()
            if data is None:
                break
            self._unread += data
        found, self._unread = self._unread[:count], self._unread[count:]
        return found

    def write(self, data: bytes) -> None:
        if data:  # nothing would be the end
            self._from_player.put(data)

    def flush(self) -> None:
        pass


@contextmanager
def open_in_process_player(folder: Path, under: CheckSetup, *, limits: bool = True) -> Iterator[InProcessPlayer]:
    """Gives the player of a submission's folder, loaded. Its folder is the working folder meanwhile.

    Args:
        folder: the submission's folder. Its own files run, not a copy, so that breakpoints in them are met.
        under: the contest, and where its other settings come from.
        limits: whether the time limits apply; a debugger stops the player for longer.

    Raises:
        Rejected: the manifest or the folder would not be received.
        UsageError: it is no player in Python that uses the helper `sparring_player`.
        SubmissionFault: it did not get ready.
    """
    applicant = self_check.admit_applicant(CheckSubject(folder=folder), under)
    script = _script(folder)
    with (
        trial_match_setup.solo_context(under.contest, applicant, under.backend, under.samples) as (context, _),
        _as_script(folder) as helper,
    ):
        timed = context if limits else replace(context, clock=lambda: 0.0)  # on which no time passes
        player = InProcessPlayer(timed, applicant.submission, helper, _load(script, helper))
        player.say_hello()
        yield player


def _script(folder: Path) -> Path:
    """Returns the program that a manifest starts with Python."""
    command = manifest.read_manifest(folder).command
    scripts = [word for word in command[1:2] if word.endswith(".py")]
    if not scripts or not Path(command[0]).name.startswith("python"):
        raise UsageError(
            f"`command: [{', '.join(command)}]` is no program in Python, and only these run in this process; "
            "leave --in-process out"
        )
    return folder / scripts[0]


@contextmanager
def _as_script(folder: Path) -> Iterator[ModuleType]:
    """Gives the helper, with this process's folder and modules as the player's; all of that is undone afterwards."""
    helpers = resources.resource_path("images", "_base", "python")
    before, path, place = set(sys.modules), list(sys.path), Path.cwd()
    sys.path[:0] = [str(folder), str(helpers)]
    os.chdir(folder)
    try:
        yield _import_helper()
    finally:
        os.chdir(place)
        sys.path[:] = path
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and {folder, helpers} & set(Path(file).parents):  # the next player has its own of that name
                del sys.modules[name]


def _import_helper() -> ModuleType:
    """Returns the helper, which takes the pipes of its process, and the garbage collector: here they are put back."""
    kept, printed, collects = [os.dup(number) for number in (0, 1)], sys.stdout, gc.isenabled()
    try:
        helper = importlib.import_module(_HELPER)
    finally:
        if collects:
            gc.enable()
        sys.stdout = printed
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)
    for pipe in (helper._questions, helper._answers):  # noqa: SLF001  shipped with this software
        pipe.close()
    return helper


def _load(script: Path, helper: ModuleType) -> Any:
    """Runs the player's program and returns the object that it would have served."""
    served: list[Any] = []
    helper.serve = served.append  # type: ignore[attr-defined]  # what the program imports
    runpy.run_path(str(script), run_name="__main__")
    if len(served) != 1:
        raise UsageError(
            f"{script.name} calls `sparring_player.serve` {len(served)} times, not once; a player that speaks the "
            "protocol by itself cannot run in this process"
        )
    return served[0]
