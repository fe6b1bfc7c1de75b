"""A Python player that runs in this process, where debuggers and tests reach it; the gate and the limits apply.

The player's own code runs in the caller's thread. While a question is open, the orchestrator's side of the conversation
runs in a second thread, so that attacks can query. Time limits are checked when the player's code returns: nothing can
end it earlier.
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

    Exceptions of the player's own code are raised unchanged.
    """

    def __init__(self, context: RoundContext, submission: Submission, helper: ModuleType, player: Any) -> None:
        self._context, self._submission = context, submission
        self._helper, self._speaker = helper, helper._Speaker(player)  # noqa: SLF001  shipped with this software
        self._pipes = _Pipes()
        helper._questions, helper._answers = self._pipes, self._pipes  # type: ignore[attr-defined]  # noqa: SLF001
        queries = context.queries_header() if self.side is Side.ATTACK else None
        session = Session(Role(self.side.value), len(context.task.classes), context.payload_limit, queries=queries)
        self._player = Player(
            self._pipes,
            session,
            context.clock,
            context.cancelled.is_set,
            decides_by_scores=context.decides_by_scores,
        )

    @property
    def side(self) -> Side:
        """The submission's side: attack or defence."""
        return self._submission.side

    @property
    def samples(self) -> Samples:
        """The contest's public pictures: those of the task's `sample`, else of its data set, at most 50."""
        return self._context.samples

    def say_hello(self) -> None:
        """Sends hello, so that the player loads. Raises SubmissionFault."""
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
        """Returns an attack's adversarial examples for pixels u8 [n, c, h, w], after the gate (rules A8, A14).

        Without pixels, asks about the first public pictures of the contest, as many as fit in a question. With pixels,
        labels may be omitted if the contest hides labels from attacks.

        Raises:
            SubmissionFault: the time for this number of pictures was over (A15), or a reply breaks the protocol.
            UsageError: the player is a defence, or labels are missing.
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
        """Returns a defence's labels and scores for pixels u8 [n, c, h, w], asked in one question.

        Without pixels, asks about the first public pictures of the contest, as many as fit in a question.

        Raises:
            SubmissionFault: the time was over, or the reply breaks the protocol.
            UsageError: the player is an attack.
        """
        if self.side is not Side.DEFENCE:
            raise UsageError("an attack classifies nothing; ask perturb")
        limits = self._context.limits
        asked = self.samples.first(limits.classify_batch).pixels if pixels is None else pixels
        seeds = self._context.seeds_for("", asked)
        return self._run(lambda: self._player.classify(asked, limits, seeds))

    def _run(self, ask: Callable[[], T]) -> T:
        """Runs `ask` in another thread, and the player's code that answers it in this thread."""
        answer: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def orchestrate() -> None:
            try:
                answer.put((True, ask()))
            except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
                answer.put((False, error))
            finally:
                self._pipes.end_question()

        thread = threading.Thread(target=orchestrate, name="orchestrator", daemon=True)
        thread.start()
        try:
            while (frame := self._helper._read()) is not None:  # noqa: SLF001  shipped with this software
                self._speaker.answer(*frame)
        finally:  # if the player's code raised, tell the other thread that no reply will come
            if answer.empty():
                self._pipes.stop()
            thread.join()
        done, value = answer.get()
        if not done:
            raise value
        result: T = value
        return result


class _Pipes:
    """A player's two pipes in memory: a sandbox for the orchestrator's side, and two files for the helper."""

    def __init__(self) -> None:
        self._to_player: queue.Queue[bytes | None] = queue.Queue()
        self._from_player: queue.Queue[bytes] = queue.Queue()
        self._unread = b""

    # methods for the orchestrator's side

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
        """Makes the helper's next read return the end of the file."""
        self._to_player.put(None)

    # methods for the helper

    def read(self, count: int) -> bytes:
        while len(self._unread) < count:
            data = self._to_player.get()
            if data is None:
                break
            self._unread += data
        found, self._unread = self._unread[:count], self._unread[count:]
        return found

    def write(self, data: bytes) -> None:
        if data:  # an empty piece would mean the end of the file
            self._from_player.put(data)

    def flush(self) -> None:
        pass


@contextmanager
def open_in_process_player(folder: Path, setup: CheckSetup, *, limits: bool = True) -> Iterator[InProcessPlayer]:
    """Opens and loads the player of a submission's folder, which is the working directory meanwhile.

    Args:
        folder: the submission's folder. Its own files run, not a copy, so that breakpoints in them are hit.
        setup: the contest, task and backend.
        limits: whether the time limits apply; in a debugger, a player may stand still for longer.

    Raises:
        Rejected: the manifest or the folder would not be received.
        UsageError: it is no player in Python that uses the helper `sparring_player`.
        SubmissionFault: the player did not get ready.
    """
    applicant = self_check.admit_applicant(CheckSubject(folder=folder), setup)
    script = _script(folder)
    with (
        trial_match_setup.solo_context(setup.contest, applicant, setup.backend, setup.samples) as (context, _),
        _as_script(folder) as helper,
    ):
        timed = context if limits else replace(context, clock=lambda: 0.0)  # a clock that stands still
        player = InProcessPlayer(timed, applicant.submission, helper, _load(script, helper))
        player.say_hello()
        yield player


def _script(folder: Path) -> Path:
    """Returns the Python script in a manifest's command. Raises UsageError if the command starts none."""
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
    """Imports the helper, with `folder` as working directory and on `sys.path`; restores all of it on exit."""
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
            if file and {folder, helpers} & set(Path(file).parents):  # the next player may have its own of this name
                del sys.modules[name]


def _import_helper() -> ModuleType:
    """Imports the helper and restores the standard streams and the garbage collector, which its import takes over."""
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
    helper.serve = served.append  # type: ignore[attr-defined]  # the program imports `serve` from the helper
    runpy.run_path(str(script), run_name="__main__")
    if len(served) != 1:
        raise UsageError(
            f"{script.name} calls `sparring_player.serve` {len(served)} times, not once; a player that speaks the "
            "protocol by itself cannot run in this process"
        )
    return served[0]
