"""The steps of a trial match, from hello to the last limit.

The first failed step ends it, since later steps would tell nothing. Infrastructure faults are raised, as everywhere.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from orchestrator.domain.outcomes import ABSTAINED, Forfeit, OnViolation
from orchestrator.domain.samples import AdversarialExamples, Pixels, Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.domain.text import counted_noun, printable
from orchestrator.errors import SubmissionFault
from orchestrator.execution.attack_output_gate import Gate
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake.compliance.recording import ConversationRecorder
from orchestrator.intake.compliance.remedies import fault_remedy
from orchestrator.intake.compliance.stand_in_defence import stand_in_broker

HELLO_STEP, ONE_PICTURE_STEP, BATCH_STEP, LIMITS_STEP, REPLAY_STEP, USAGE_STEP = (
    "hello",
    "one picture",
    "a batch",
    "limits",
    "replay",
    "memory and time",
)
JUDGED_BY_RULES = frozenset({LIMITS_STEP, REPLAY_STEP})
"""Steps whose failure the rules of a round judge (A9, A10, A14); the failure of any other step prevents admission."""
NEAR_LIMIT_SHARE = 0.8
"""The share of a limit above which a value is called close to it, since other machines may be slower."""
_MIB = 1024 * 1024

_FORFEIT_REMEDIES = {
    Forfeit.MISSING: ("not delivered", "deliver a candidate for every picture"),
    Forfeit.TYPE: ("not 8-bit values", "deliver unsigned 8-bit values: round, clip to 0..255, then astype(uint8)"),
    Forfeit.SHAPE: ("of another shape than their pictures", "keep channels, height and width as in the question"),
    Forfeit.NOT_FINITE: ("NaN or infinite", "deliver finite values, rounded to unsigned 8 bits"),
    Forfeit.BUDGET: ("beyond the budget", "round towards the picture, then project once more on 8-bit values"),
}


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a check. `passed` is None if it was not made; `problem` says what is wrong, `remedy` what to do.

    `detail` is what was observed, `near_limit` a warning about a step that passed.
    """

    name: str
    passed: bool | None
    detail: str
    problem: str = ""
    remedy: str = ""
    near_limit: str = ""


@dataclass(eq=False)
class _Observations:
    """The observations of a match: times, and the latest answers or adversarial examples."""

    load_seconds: float = 0.0
    slowest_share: float = 0.0
    answers: list[int] = field(default_factory=list)
    adversarial_examples: AdversarialExamples | None = None


class TrialMatch:
    """A trial match of one submission, alone, on a few pictures.

    Args:
        context: the contest's task, policy and rules; its samples are the pictures of the match, and its roster and
            images contain the submission.
        submission: the submission that plays.
        device: the UUID of the GPU that it may use.
        on_step: called with each step once it is made.
        keep: whether the recorded conversation keeps payloads.
    """

    def __init__(
        self,
        context: RoundContext,
        submission: Submission,
        device: str | None = None,
        *,
        on_step: Callable[[CheckStep], object] = lambda _: None,
        keep: bool = False,
    ) -> None:
        self.recorder = ConversationRecorder(context.payload_limit, context.clock, keep=keep)
        self.steps: list[CheckStep] = []
        self._context, self._submission, self._on_step = context, submission, on_step
        sandboxes = itertools.count()
        self._pool = PlayerPool(
            context,
            submission,
            "match",
            lambda: context.secret_seed("match", str(next(sandboxes))),
            device=device,
            wrap_sandbox=self.recorder.wrap_sandbox,
        )
        self._observed = _Observations()

    @property
    def is_attack(self) -> bool:
        """Whether the submission is an attack."""
        return self._submission.side is Side.ATTACK

    def play(self) -> list[CheckStep]:
        """Plays and returns the steps up to the first that fails. Raises InfrastructureFault, Cancelled."""
        player = self._start_player()
        if player is None:
            return self.steps
        try:
            self._ask_player(player)
        finally:
            player.stop()
        if self.passed:
            self._check_reproducible()
        if self.passed:
            self._usage_step()
        return self.steps

    @property
    def passed(self) -> bool:
        """Whether every step so far passed."""
        return all(step.passed for step in self.steps)

    def _start_player(self) -> Player | None:
        """Returns a player that is ready; None, after adding a failed step, if it does not get ready."""
        clock, limit = self._context.clock, self._context.limits.ready_seconds
        started_at = clock()
        try:
            player = self._pool.start_player()
        except SubmissionFault as fault:
            self._add_failed(HELLO_STEP, fault, f"not ready, {clock() - started_at:.1f} s after it was started")
            return None
        self._observed.load_seconds = clock() - started_at
        self._add_passed(HELLO_STEP, f"ready after {self._observed.load_seconds:.1f} s of {limit:g} s")
        return player

    def _ask_player(self, player: Player) -> None:
        pixels = self._context.samples.pixels
        ask = self._perturb if self.is_attack else self._classify
        if not self._ask_step(ONE_PICTURE_STEP, player, lambda: ask(player, pixels[:1])):
            return
        most = min(len(pixels), self._context.limits.perturb_batch) if self.is_attack else len(pixels)
        if self._ask_step(BATCH_STEP, player, lambda: self._say_goodbye(player, ask(player, pixels[:most]))):
            self._check_limits()

    def _say_goodbye(self, player: Player, detail: str) -> str:
        """Ends the conversation after the last answer; returns `detail`. Raises OutputFlood for output after it."""
        if fault := player.say_bye():
            raise fault
        return detail

    def _ask_step(self, name: str, player: Player, ask: Callable[[], str]) -> bool:
        started_at = self._context.clock()
        try:
            detail = ask()
        except SubmissionFault as fault:
            player.stop()
            self._add_failed(name, fault, f"after {self._context.clock() - started_at:.2f} s")
            return False
        self._add_passed(name, detail)
        return True

    def _perturb(self, player: Player, pixels: Pixels) -> str:
        context = self._context
        examples = self._gate.missing_all(pixels)
        truth = context.samples.labels[: len(pixels)]
        labels = [int(label) for label in truth] if context.labels else None
        broker = stand_in_broker(context, pixels, truth)
        started_at, paused = context.clock(), player.paused_seconds
        for delivered in player.perturb(pixels, labels, context.limits, None if broker is None else broker.answer):
            self._gate.admit(examples, pixels, delivered.index, delivered.pixels)
        spent = context.clock() - started_at - (player.paused_seconds - paused)
        self._observed.adversarial_examples = examples
        limit = context.limits.perturb_limit(len(pixels))
        self._note_share(spent / limit)
        asked = f", {broker.record.queries.sum()} queries, answered with the true labels" if broker else ""
        return f"{counted_noun(len(pixels), 'picture')} in {spent:.2f} s of {limit:g} s{asked}"

    def _classify(self, player: Player, pixels: Pixels) -> str:
        limits, clock = self._context.limits, self._context.clock
        answers: list[int] = []
        total = 0.0
        for start in range(0, len(pixels), limits.classify_batch):
            some = pixels[start : start + limits.classify_batch]
            seeds = self._context.seeds_for(self._submission.id, some)
            started_at = clock()
            answered = player.classify(some, limits, seeds)
            spent = clock() - started_at
            total += spent
            self._note_share(spent / limits.classify_seconds)
            answers += [ABSTAINED if label is None else label for label in answered.labels]
        self._observed.answers = answers
        batch_text = f"{limits.classify_batch} a question, which may take {limits.classify_seconds:g} s"
        return f"{counted_noun(len(pixels), 'picture')} in {total:.2f} s, {batch_text}"

    def _check_limits(self) -> None:
        """Adds the step on the answers: an attack's examples must pass the gate, a defence's answers are counted."""
        examples, task = self._observed.adversarial_examples, self._context.task
        if examples is None:
            names = [task.classes[answer] for answer in self._observed.answers if answer >= 0]
            abstained = len(self._observed.answers) - len(names)
            detail = (
                f"{counted_noun(len(names), 'picture')} answered with "
                f"{counted_noun(len(set(names)), 'class', 'classes')}, {abstained} abstained"
            )
            self._add_passed(LIMITS_STEP, detail, self._constant_answer_warning())
            return
        allowed = self._context.gate().budget
        budget = f"{allowed.norm} {float(allowed.epsilon):g}/255"
        refused = [forfeit for forfeit in _FORFEIT_REMEDIES if (examples.forfeits == forfeit).any()]
        if refused:
            counts = [
                f"{int((examples.forfeits == forfeit).sum())} {_FORFEIT_REMEDIES[forfeit][0]}" for forfeit in refused
            ]
            problem = f"of {counted_noun(len(examples.forfeits), 'picture')} {', '.join(counts)}"
            self._add_step(CheckStep(LIMITS_STEP, False, f"budget {budget}", problem, _FORFEIT_REMEDIES[refused[0]][1]))
            return
        largest = float(np.nanmax(examples.distances))
        clipped = int(examples.violations.sum()) if self._context.on_violation is OnViolation.CLIP else 0
        close = f"{clipped} beyond the budget were clipped to it" if clipped else ""
        still = "; no picture was changed" if largest == 0 else ""
        self._add_passed(
            LIMITS_STEP, f"all inside the budget, largest distance {largest:.2f}/255 of {budget}{still}", close
        )

    def _constant_answer_warning(self) -> str:
        """Returns a warning if a defence gave one answer for pictures of several classes; "" for pictures of noise."""
        answers, samples, task = self._observed.answers, self._context.samples, self._context.task
        if len(set(answers)) != 1:
            return ""
        if answers[0] == ABSTAINED:
            return "it abstained on every picture"
        classes = len(set(samples.labels.tolist()))
        if classes == 1 or np.array_equal(samples.pixels, noise_pictures(task, len(samples)).pixels):
            return ""
        return (
            f"it answered the same class, {printable(task.classes[answers[0]])!r}, for all {len(answers)} pictures, "
            f"which show {classes} classes: see whether it loads its weights, and scales the pixels (0 to 255, "
            "channels first) as its model was trained"
        )

    def _check_reproducible(self) -> None:
        """Asks the same in a fresh sandbox: a defence in reverse order (A9, A10), an attack with the same seed."""
        pixels = self._context.samples.pixels
        first, examples = list(self._observed.answers), self._observed.adversarial_examples
        try:
            player = self._pool.start_player()
        except SubmissionFault as fault:
            self._add_failed(REPLAY_STEP, fault, "a second sandbox did not get ready")
            return
        try:
            if examples is None:
                self._classify(player, pixels[: len(first)][::-1])
                differ = sum(a != b for a, b in zip(first, self._observed.answers[::-1], strict=True))
            else:
                self._perturb(player, pixels[: len(examples.forfeits)])
                again = self._observed.adversarial_examples
                differ = int((again.pixels != examples.pixels).any(axis=(1, 2, 3)).sum()) if again else 0
            self._say_goodbye(player, "")
        except SubmissionFault as fault:
            player.stop()
            self._add_failed(REPLAY_STEP, fault, "in a second sandbox")
            return
        finally:
            player.stop()
        self._reproducible_step(differ, len(first) or len(examples.forfeits if examples else ()))

    def _reproducible_step(self, differ: int, count: int) -> None:
        pictures = counted_noun(count, "picture")
        detail = f"{count - differ} of {pictures} the same in a fresh sandbox"
        if not differ:
            self._add_passed(REPLAY_STEP, detail)
        elif self.is_attack and not self._context.replay.attacks:
            self._add_passed(
                REPLAY_STEP, detail, "it is not reproducible from its seed; this contest does not require that"
            )
        else:
            basis = "the seed in hello" if self.is_attack else "the picture alone"
            source = f"let everything follow from {basis}: fix seeds, no clock, no files, no memory of other pictures"
            self._add_step(CheckStep(REPLAY_STEP, False, detail, f"{differ} of {pictures} differ", source))

    def _usage_step(self) -> None:
        limits = self._context.limits
        peaks = [player_exit.peak_bytes for player_exit in self.recorder.exits if player_exit.peak_bytes is not None]
        peak = max(peaks, default=None)
        parts = [f"loads in {self._observed.load_seconds:.1f} s of {limits.ready_seconds:g} s"]
        parts.append(f"slowest question at {100 * self._observed.slowest_share:.0f} % of its limit")
        close = [
            resource
            for resource, share in (
                ("loading", self._observed.load_seconds / limits.ready_seconds),
                ("a question", self._observed.slowest_share),
                ("memory", (peak or 0) / limits.memory),
            )
            if share > NEAR_LIMIT_SHARE
        ]
        if peak is not None:
            parts.append(f"{peak / _MIB:.0f} MiB of {limits.memory / _MIB:.0f} MiB")
        warnings = [f"close to the limit: {', '.join(close)}"] if close else []
        if kills := sum(player_exit.kills for player_exit in self.recorder.exits):
            warnings.append(
                f"the memory limit killed {kills} of the processes that it started, and it went on answering"
            )
        self._add_passed(USAGE_STEP, ", ".join(parts), "; ".join(warnings))

    def _add_step(self, step: CheckStep) -> None:
        self.steps.append(step)
        self._on_step(step)

    @property
    def _gate(self) -> Gate:
        return self._context.gate()

    def _note_share(self, share: float) -> None:
        self._observed.slowest_share = max(self._observed.slowest_share, share)

    def _add_passed(self, name: str, detail: str, close: str = "") -> None:
        self._add_step(CheckStep(name, True, detail, near_limit=close))

    def _add_failed(self, name: str, fault: SubmissionFault, detail: str) -> None:
        problem = f"{fault.code}: {printable(str(fault), 500)}"
        self._add_step(CheckStep(name, False, detail, problem, fault_remedy(fault, self.recorder.stderr)))


def noise_pictures(task: Task, count: int) -> Samples:
    """Returns pictures of noise, labelled with all classes in turn, for a task whose own pictures are hidden."""
    chance = np.random.default_rng(count)
    pixels = chance.integers(0, 256, (count, *task.shape), dtype=np.uint8)
    return Samples(pixels, np.arange(count, dtype=np.int64) % len(task.classes), task.classes)
