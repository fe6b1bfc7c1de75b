"""Runs `player.py` and asks it questions like any player, with `Player` of `execution`.

All pixels of a picture have one value from 1 to 3, which is also its true label. Harm is: the session accepted a label
that no honest player gives; the orchestrator's memory grew; the engine logged the player's output; a question blocked
execution; a text would reach a terminal or a page unescaped.
"""

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from orchestrator import reports
from orchestrator.domain.samples import Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import DeadlinePassed, ProtocolFault, SubmissionFault
from orchestrator.execution.player import Player
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import AnswersReply, ReadyReply
from orchestrator.sandbox_selftest import docker_cli
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Program, QuestionKind, Weakness
from orchestrator.sandbox_selftest.outcome import RunResult
from orchestrator.sandbox_selftest.weakened_sessions import SESSION_TYPES, RecordingSession
from orchestrator.sandboxes.base import Exit, Image, ImageSource, Sandbox, SandboxSpec

PRELUDE = "_frames.py"
"""A module next to the programs, from which each may import."""
CLASSES = 10
SHAPE = (1, 4, 4)
PAYLOAD_LIMIT = 64 * 1024
MAX_GROWTH = 96 * 1024**2
"""Bytes of growth of the orchestrator that count as harm."""
MAX_LOG_BYTES = 16 * 1024**2
"""Bytes kept by the engine that count as harm."""
MAX_CONVERSATION_SECONDS = 8.0
"""Seconds of one conversation that count as harm."""
_DEFAULT_LIMITS = {"ready_seconds": 10.0, "classify_seconds": 2.0, "perturb_seconds": 2.0, "perturb_batch": 1}


@dataclass
class _Conversation:
    """The observations of one conversation."""

    fault: str | None = None
    texts: list[str] = field(default_factory=list)
    buffered: bytearray = field(default_factory=bytearray)
    growth: int = 0
    logged_bytes: int = 0
    seconds: float = 0.0
    exit_status: Exit | None = None


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Runs a program of the kind `protocol` and returns the result.

    Raises:
        SparringError: the backend could not run it, so there is no result.
    """
    expectation = program.expectation
    weakness = expectation.removed.weakness if removed and expectation.removed else None
    policy = context.policy_for(program, removed=removed)
    limits = {
        **_DEFAULT_LIMITS,
        **expectation.limits,
        **(expectation.removed.limits if removed and expectation.removed else {}),
    }
    policy = replace(policy, limits=replace(policy.limits, **limits))
    job = f"{program.name}-{'removed' if removed else 'contained'}"
    spec = SandboxSpec(_player_image(program, context), policy, context.run, job, context.device)
    role = Role.ATTACK if expectation.question is QuestionKind.PERTURB else Role.DEFENCE
    session = SESSION_TYPES[weakness](role, CLASSES, PAYLOAD_LIMIT)
    seen = _Conversation()
    before = _resident_bytes()
    started_at = time.monotonic()
    sandbox = context.backend.start(spec)
    player = Player(sandbox, session, time.monotonic, lambda: False)
    try:
        if weakness is Weakness.READING:
            _read_everything(sandbox, session, policy.limits, seen)
        else:
            _hold_conversation(player, program, policy.limits, seen, ignore_deadlines=weakness is Weakness.DEADLINE)
        seen.growth = _resident_bytes() - before
        seen.seconds = time.monotonic() - started_at
        seen.logged_bytes = docker_cli.count_logged_bytes(context, spec.job, MAX_LOG_BYTES) if policy.engine_logs else 0
    finally:
        seen.exit_status = player.stop()
    return _run_result(session, seen, raw=weakness is Weakness.TEXT)


def _player_image(program: Program, context: Context) -> Image:
    """Returns the player as an image: a folder for a backend without images, otherwise as one argument of python3."""
    prelude = (program.folder.parent / PRELUDE).read_text("utf-8")
    source = (program.folder / "player.py").read_text("utf-8")
    if context.image.folder is not None:
        folder = context.workspace / f"player-{program.name}"
        folder.mkdir(exist_ok=True)
        (folder / PRELUDE).write_text(prelude, "utf-8")
        (folder / "player.py").write_text(source, "utf-8")
        return context.backend.admit(ImageSource(folder=folder, command=("python3", "player.py"), trusted=True))
    importable = (
        "import sys, types\n_made = types.ModuleType('_frames')\n"
        f"exec({prelude!r}, _made.__dict__)\nsys.modules['_frames'] = _made\n"
    )
    return replace(context.image, command=("python3", "-I", "-S", "-c", importable + source))


def _hold_conversation(
    player: Player, program: Program, limits: Limits, seen: _Conversation, *, ignore_deadlines: bool
) -> None:
    """Sends `hello` and asks the questions; with `ignore_deadlines`, continues after a deadline has passed."""
    task, limits_header = _hello_headers(limits)
    try:
        player.say_hello(task, limits_header, seed=1)
        for number in range(program.expectation.question_count):
            try:
                _ask_player(player, program.expectation.question, _question_pixels(number), limits)
            except DeadlinePassed:
                if not ignore_deadlines:
                    raise
    except SubmissionFault as fault:
        seen.fault = f"{fault.code}/{fault.reason}" if isinstance(fault, ProtocolFault) else fault.code
        seen.texts.append(str(fault))


def _ask_player(player: Player, asks: QuestionKind, pixels: Pixels, limits: Limits) -> None:
    if asks is QuestionKind.CLASSIFY:
        player.classify(pixels, limits)
        return
    for _ in player.perturb(pixels, [int(pixels.flat[0])], limits):
        pass


def _read_everything(sandbox: Sandbox, session: RecordingSession, limits: Limits, seen: _Conversation) -> None:
    """Sends `hello`, and buffers all output until the deadline."""
    task, limits_header = _hello_headers(limits)
    sandbox.send(session.ask_hello(task, limits_header, 1), time.monotonic() + limits.ready_seconds)
    deadline = time.monotonic() + limits.ready_seconds
    while data := sandbox.receive(deadline):
        seen.buffered += data
        if len(seen.buffered) > 2 * MAX_GROWTH:
            return


def _run_result(session: RecordingSession, seen: _Conversation, *, raw: bool) -> RunResult:
    names = [reply.name for reply in session.accepted_replies if isinstance(reply, ReadyReply)]
    stderr = seen.exit_status.stderr if seen.exit_status else b""
    texts = [stderr.decode("utf-8", "replace")] if raw else [printable(stderr)]
    texts += names + seen.texts
    pages = texts if raw else [reports.render_text(text) for text in texts]
    labels = [label for reply in session.accepted_replies if isinstance(reply, AnswersReply) for label in reply.labels]
    honest = [int(_question_pixels(number).flat[0]) for number in range(len(labels))]
    false_labels = [
        f"accepted {label}, an honest player says {true}"
        for label, true in zip(labels, honest, strict=True)
        if label not in (true, None)
    ]
    harms = [
        *false_labels,
        *([f"the orchestrator grew by {seen.growth / 1024**2:.0f} MiB"] if seen.growth > MAX_GROWTH else []),
        *(
            [f"the engine keeps more than {seen.logged_bytes / 1024**2:.0f} MiB of it"]
            if seen.logged_bytes > MAX_LOG_BYTES
            else []
        ),
        *([f"it held the sandbox up for {seen.seconds:.0f} s"] if seen.seconds > MAX_CONVERSATION_SECONDS else []),
        *([f"a terminal gets {text[:60]!r}" for text in texts if not text.replace("\n", "").isprintable()][:1]),
        *([f"a page gets {text[:60]!r}" for text in pages if "<script" in text][:1]),
    ]
    harmless = [f"{len(session.accepted_replies)} replies accepted", f"grew by {max(seen.growth, 0) / 1024**2:.0f} MiB"]
    return RunResult(
        harm=bool(harms),
        ending=seen.exit_status.ending if seen.exit_status else None,
        fault=seen.fault,
        seconds=seen.seconds,
        peak_bytes=seen.exit_status.peak_bytes if seen.exit_status else None,
        evidence=harms or harmless + seen.texts,
    )


def _hello_headers(limits: Limits) -> tuple[TaskHeader, LimitsHeader]:
    names = [str(number) for number in range(CLASSES)]
    budget = BudgetHeader(norm="linf", epsilon=8.0)
    limits_header = LimitsHeader(
        ready_seconds=limits.ready_seconds,
        step_seconds=limits.classify_seconds,
        batch=1,
        payload_bytes=PAYLOAD_LIMIT,
        memory_bytes=limits.memory,
        threads=limits.threads,
    )
    return TaskHeader(name="selftest", classes=names, shape=list(SHAPE), budget=budget), limits_header


def _question_pixels(number: int) -> Pixels:
    """Returns the picture of a question, u8 [1, c, h, w]; its first value is its true label."""
    return np.full((1, *SHAPE), 1 + number % 3, np.uint8)


def _resident_bytes() -> int:
    """Returns this process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
