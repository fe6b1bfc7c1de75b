"""The steps of a trial match, from hello to the last limit.

The first fault ends it: what comes after a fault says nothing. Infrastructure faults are raised, as everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from orchestrator.domain.outcomes import ABSTAINED, Forfeit, OnViolation
from orchestrator.domain.samples import AdversarialExamples, Pixels, Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.domain.text import printable
from orchestrator.errors import SubmissionFault
from orchestrator.execution.gate import Gate
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import SandboxExit
from orchestrator.execution.player_starter import PlayerStarter
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake.compliance.recording import ConversationRecorder
from orchestrator.intake.compliance.remedies import fault_remedy

HELLO_STEP, ONE_PICTURE_STEP, BATCH_STEP, LIMITS_STEP, REPLAY_STEP, USAGE_STEP = (
    "hello",
    "one picture",
    "a batch",
    "limits",
    "replay",
    "memory and time",
)
JUDGED_BY_RULES = frozenset({LIMITS_STEP, REPLAY_STEP})
"""Steps whose failure is for the rules of a round to judge (A9, A10, A14); any other keeps a submission out."""
NEAR_LIMIT_SHARE = 0.8
"""The share of a limit from which it is called close: other machines are slower."""
_MIB = 1024 * 1024

_FORFEIT_REMEDIES = {
    Forfeit.MISSING: ("not delivered", "deliver a candidate for every picture"),
    Forfeit.TYPE: ("not 8-bit values", "deliver unsigned 8-bit values: round, clip to 0..255, then astype(uint8)"),
    Forfeit.SHAPE: ("of another shape than their pictures", "deliver channels, height, width as they came"),
    Forfeit.NOT_FINITE: ("NaN or infinite", "deliver finite values, rounded to unsigned 8 bits"),
    Forfeit.BUDGET: ("beyond the budget", "round towards the picture, then project once more on 8-bit values"),
}


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a check. `passed` is None where it was not made; `problem` says what is wrong, `remedy` what to do.

    `detail` is what was seen, `close` what passed only just.
    """

    name: str
    passed: bool | None
    detail: str
    problem: str = ""
    remedy: str = ""
    close: str = ""


@dataclass(eq=False)
class _Observations:
    """What a match saw."""

    load: float = 0.0
    slowest: float = 0.0
    answers: list[int] = field(default_factory=list)
    candidates: AdversarialExamples | None = None


class TrialMatch:
    """A submission playing a few pictures by itself.

    Args:
        setting: the contest's task, policy and rules; its samples are the pictures of the match, and its roster and
            images hold the submission.
        submission: who plays.
        device: the UUID of the GPU it may use.
        tell: is told each step once it is made.
        keep: whether the conversation is written down with its payloads.
    """

    def __init__(
        self,
        setting: RoundContext,
        submission: Submission,
        device: str | None = None,
        *,
        tell: Callable[[CheckStep], object] = lambda _: None,
        keep: bool = False,
    ) -> None:
        self.heard = ConversationRecorder(setting.payload_limit, setting.clock, keep=keep)
        self.steps: list[CheckStep] = []
        self._setting, self._submission, self._tell = setting, submission, tell
        self._leaves: list[SandboxExit] = []
        self._entrance = PlayerStarter(
            setting,
            submission,
            "match",
            device,
            lambda: setting.secret_seed("match", str(len(self._entrance.told))),
            self._leaves,
            seat=self.heard.seat,
        )
        self._seen = _Observations()

    @property
    def attack(self) -> bool:
        """Whether it is an attack."""
        return self._submission.side is Side.ATTACK

    def play(self) -> list[CheckStep]:
        """Returns the steps up to the first that failed. Raises InfrastructureFault, Cancelled."""
        player = self._opened()
        if player is None:
            return self.steps
        try:
            self._at_work(player)
        finally:
            player.stop()
        if self.passed:
            self._replay()
        if self.passed:
            self._use()
        return self.steps

    @property
    def passed(self) -> bool:
        """Whether every step so far passed."""
        return all(step.passed for step in self.steps)

    def _opened(self) -> Player | None:
        """Returns a player that said ready; None where it did not, which is a failed step."""
        clock, limit = self._setting.clock, self._setting.limits.ready_seconds
        began = clock()
        try:
            player = self._entrance.open()
        except SubmissionFault as fault:
            self._failed(HELLO_STEP, fault, f"not ready, {clock() - began:.1f} s after it was started")
            return None
        self._seen.load = clock() - began
        self._passed(HELLO_STEP, f"ready after {self._seen.load:.1f} s of {limit:g} s")
        return player

    def _at_work(self, player: Player) -> None:
        pixels = self._setting.samples.pixels
        ask = self._perturb if self.attack else self._classify
        if not self._try(ONE_PICTURE_STEP, player, lambda: ask(player, pixels[:1])):
            return
        most = min(len(pixels), self._setting.limits.perturb_batch) if self.attack else len(pixels)
        if self._try(BATCH_STEP, player, lambda: self._parted(player, ask(player, pixels[:most]))):
            self._judge()

    def _parted(self, player: Player, detail: str) -> str:
        """Takes leave of a player after its last answer. Raises OutputFlood where it wrote something after it."""
        if stray := player.farewell():
            raise stray
        return detail

    def _try(self, name: str, player: Player, ask: Callable[[], str]) -> bool:
        began = self._setting.clock()
        try:
            detail = ask()
        except SubmissionFault as fault:
            player.stop()
            self._failed(name, fault, f"after {self._setting.clock() - began:.2f} s")
            return False
        self._passed(name, detail)
        return True

    def _perturb(self, player: Player, pixels: Pixels) -> str:
        setting = self._setting
        made = self._gate.nothing(pixels)
        labels = [int(label) for label in setting.samples.labels[: len(pixels)]] if setting.labels else None
        began = setting.clock()
        for delivered in player.perturb(pixels, labels, setting.limits):
            self._gate.admit(made, pixels, delivered.index, delivered.pixels)
        spent = setting.clock() - began
        self._seen.candidates = made
        limit = setting.limits.perturb_limit(len(pixels))
        self._slow(spent / limit)
        return f"{_pictures_text(len(pixels))} in {spent:.2f} s of {limit:g} s"

    def _classify(self, player: Player, pixels: Pixels) -> str:
        limits, clock = self._setting.limits, self._setting.clock
        answers: list[int] = []
        total = 0.0
        for start in range(0, len(pixels), limits.classify_batch):
            began = clock()
            answered = player.classify(pixels[start : start + limits.classify_batch], limits)
            spent = clock() - began
            total += spent
            self._slow(spent / limits.classify_seconds)
            answers += [ABSTAINED if label is None else label for label in answered.labels]
        self._seen.answers = answers
        each = f"{limits.classify_batch} a question, which may take {limits.classify_seconds:g} s"
        return f"{_pictures_text(len(pixels))} in {total:.2f} s, {each}"

    def _judge(self) -> None:
        """Looks at what came: an attack's candidates have to pass the gate, a defence's answers are counted."""
        made, task = self._seen.candidates, self._setting.task
        if made is None:
            names = [task.classes[answer] for answer in self._seen.answers if answer >= 0]
            abstained = len(self._seen.answers) - len(names)
            detail = (
                f"{_pictures_text(len(names))} answered, {abstained} abstained, {len(set(names))} different classes"
            )
            close = "it abstained on every picture" if not names else ""
            self._passed(LIMITS_STEP, detail, close)
            return
        budget = f"{task.budget.norm} {float(task.budget.epsilon):g}/255"
        refused = [forfeit for forfeit in _FORFEIT_REMEDIES if (made.forfeits == forfeit).any()]
        if refused:
            counts = [f"{int((made.forfeits == forfeit).sum())} {_FORFEIT_REMEDIES[forfeit][0]}" for forfeit in refused]
            problem = f"of {_pictures_text(len(made.forfeits))} {', '.join(counts)}"
            self._made(CheckStep(LIMITS_STEP, False, f"budget {budget}", problem, _FORFEIT_REMEDIES[refused[0]][1]))
            return
        largest = float(np.nanmax(made.distances))
        clipped = int(made.violations.sum()) if self._setting.on_violation is OnViolation.CLIP else 0
        close = f"{clipped} beyond the budget were clipped to it" if clipped else ""
        still = "; no picture was changed" if largest == 0 else ""
        self._passed(
            LIMITS_STEP, f"all inside the budget, largest distance {largest:.2f}/255 of {budget}{still}", close
        )

    def _replay(self) -> None:
        """Asks a fresh sandbox the same: a defence in reverse order (A9, A10), an attack from the same seed."""
        pixels = self._setting.samples.pixels
        first, made = list(self._seen.answers), self._seen.candidates
        try:
            player = self._entrance.open()
        except SubmissionFault as fault:
            self._failed(REPLAY_STEP, fault, "a second sandbox did not get ready")
            return
        try:
            if made is None:
                self._classify(player, pixels[: len(first)][::-1])
                differ = sum(a != b for a, b in zip(first, self._seen.answers[::-1], strict=True))
            else:
                self._perturb(player, pixels[: len(made.forfeits)])
                again = self._seen.candidates
                differ = int((again.pixels != made.pixels).any(axis=(1, 2, 3)).sum()) if again else 0
            self._parted(player, "")
        except SubmissionFault as fault:
            player.stop()
            self._failed(REPLAY_STEP, fault, "in a second sandbox")
            return
        finally:
            player.stop()
        self._compared(differ, len(first) or len(made.forfeits if made else ()))

    def _compared(self, differ: int, count: int) -> None:
        detail = f"{count - differ} of {_pictures_text(count)} the same in a fresh sandbox"
        if not differ:
            self._passed(REPLAY_STEP, detail)
        elif self.attack and not self._setting.replay.attacks:
            self._passed(
                REPLAY_STEP, detail, "it is not reproducible from its seed; this contest does not ask for that"
            )
        else:
            what = "the seed in hello" if self.attack else "the picture alone"
            source = f"let everything follow from {what}: fix seeds, no clock, no files, no memory of other pictures"
            self._made(CheckStep(REPLAY_STEP, False, detail, f"{differ} of {_pictures_text(count)} differ", source))

    def _use(self) -> None:
        limits = self._setting.limits
        peaks = [ended.peak_bytes for ended in self.heard.exits if ended.peak_bytes is not None]
        peak = max(peaks, default=None)
        parts = [f"loads in {self._seen.load:.1f} s of {limits.ready_seconds:g} s"]
        parts.append(f"slowest question at {100 * self._seen.slowest:.0f} % of its limit")
        close = [
            what
            for what, share in (
                ("loading", self._seen.load / limits.ready_seconds),
                ("a question", self._seen.slowest),
                ("memory", (peak or 0) / limits.memory),
            )
            if share > NEAR_LIMIT_SHARE
        ]
        if peak is not None:
            parts.append(f"{peak / _MIB:.0f} MiB of {limits.memory / _MIB:.0f} MiB")
        told = [f"close to the limit: {', '.join(close)}"] if close else []
        if kills := sum(ended.kills for ended in self.heard.exits):
            told.append(f"the memory limit killed {kills} of the processes that it started, and it answered on")
        self._passed(USAGE_STEP, ", ".join(parts), "; ".join(told))

    def _made(self, step: CheckStep) -> None:
        self.steps.append(step)
        self._tell(step)

    @property
    def _gate(self) -> Gate:
        return Gate(self._setting.task.budget, self._setting.on_missing, self._setting.on_violation)

    def _slow(self, share: float) -> None:
        self._seen.slowest = max(self._seen.slowest, share)

    def _passed(self, name: str, detail: str, close: str = "") -> None:
        self._made(CheckStep(name, True, detail, close=close))

    def _failed(self, name: str, fault: SubmissionFault, detail: str) -> None:
        what = f"{fault.code}: {printable(str(fault), 500)}"
        self._made(CheckStep(name, False, detail, what, fault_remedy(fault, self.heard.stderr)))


def noise_pictures(task: Task, count: int) -> Samples:
    """Returns pictures of noise with the labels in turn, for a task whose own pictures are hidden."""
    chance = np.random.default_rng(count)
    pixels = chance.integers(0, 256, (count, *task.shape), dtype=np.uint8)
    return Samples(pixels, np.arange(count, dtype=np.int64) % len(task.classes), task.classes)


def _pictures_text(count: int) -> str:
    return "1 picture" if count == 1 else f"{count} pictures"
