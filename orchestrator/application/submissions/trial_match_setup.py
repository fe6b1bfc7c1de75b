"""Sets up trial matches: a submission alone, on a few pictures, under the contest's own task and limits."""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator import composition, plugins
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import InfrastructureFault, Problem
from orchestrator.execution.round_context import RoundContext
from orchestrator.execution.round_runner import EventCallback, RoundRunner
from orchestrator.intake.compliance import trial_match
from orchestrator.intake.compliance.trial_match import CheckStep, TrialMatch
from orchestrator.intake.contest_file import Contest
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import SECRET_BYTES, open_blobs
from orchestrator.ledger.stores.base import format_time
from orchestrator.sandboxes.base import Backend, Image
from orchestrator.scoring.round_scoring import RoundScoring


@dataclass(frozen=True, slots=True)
class Applicant:
    """A submission that may be admitted: its task, its side, and the image that is started."""

    task: str
    side: Side
    image: Image
    name: str = "candidate"

    @property
    def submission(self) -> Submission:
        """The applicant as a submission of a round's roster."""
        return Submission(self.name, self.name, "", self.side, self.image.digest, self.image.name)


@contextmanager
def open_trial_match(
    contest: Contest,
    candidate: Applicant,
    backend: Backend,
    samples: Samples,
    *,
    on_step: Callable[[CheckStep], object] = lambda _: None,
    keep: bool = False,
) -> Iterator[TrialMatch]:
    """Opens a trial match on these pictures; ends everything that it started on exit.

    `on_step` is called with each step. `keep`: whether to keep the payloads of the conversation as well.
    """
    with solo_context(contest, candidate, backend, samples) as (context, device):
        yield TrialMatch(context, candidate.submission, device, on_step=on_step, keep=keep)


@contextmanager
def solo_context(
    contest: Contest, candidate: Applicant, backend: Backend, samples: Samples
) -> Iterator[tuple[RoundContext, str | None]]:
    """Makes the context in which an applicant plays alone, and chooses its device. Raises BackendUnavailable."""
    roster, images = Roster((candidate.submission,)), {candidate.name: candidate.image}
    with _trial_context(contest, candidate.task, roster, images, backend, samples) as context:
        (device,) = composition.slot_devices(context.limits, 1)
        yield context, device


@contextmanager
def play_trial_round(
    contest: Contest,
    task: str,
    players: Mapping[Submission, Image],
    backend: Backend,
    samples: Samples,
    watch: EventCallback,
) -> Iterator[tuple[RoundView, RoundScoring]]:
    """Plays all attacks against all defences on these pictures, without replays; yields the record and its scoring.

    Baselines remember no pictures: if all defences are baselines, each has one sandbox whatever the isolation is.
    """
    roster, images = Roster(tuple(players)), {submission.id: image for submission, image in players.items()}
    with _trial_context(contest, task, roster, images, backend, samples) as once:
        devices = composition.attack_devices(once.limits, once.access.sandboxes_per_job)
        baselines = all(defence.baseline for defence in roster.by_side(Side.DEFENCE))
        isolation = Isolation.ROUND if baselines else once.isolation
        context = replace(once, replay=SamplingDesign(power=0.0), isolation=isolation, attack_devices=devices)
        record = RoundView(context.blobs)
        ledger = plugins.load_plugin("stores", "memory")()
        runner = RoundRunner(context, ledger, record, lambda: format_time(datetime.now(UTC)), watch)
        runner.open_round(contest.file.model_dump(mode="json"))
        attacks = [None, *(attack.id for attack in roster.by_side(Side.ATTACK))]
        cells = [Cell(defence.id, attack) for defence in roster.by_side(Side.DEFENCE) for attack in attacks]
        executor = composition.make_local_executor(context.limits, None, context.access.sandboxes_per_job)
        runner.run(executor, cells)
        yield record, RoundScoring(record, contest.format)


def trial_pictures(contest: Contest, task: str) -> Samples:
    """Returns the pictures of a trial match: the first ones of the task's public sample, or noise without a sample.

    Hidden pictures are not shown before a round. Raises Rejected if the pictures cannot be read.
    """
    count = contest.file.trial_pictures
    sample = contest.load_public_samples(task)
    if sample is not None:
        return sample.first(min(count, len(sample)))
    return trial_match.noise_pictures(contest.make_task(contest.load_samples(task), task), count)


def play_trial_match(
    contest: Contest,
    candidate: Applicant,
    backend: Backend,
    on_step: Callable[[CheckStep], object] = lambda _: None,
) -> tuple[list[Problem], list[str]]:
    """Plays a trial match. Returns the problems that prevent admission, and warnings for the authors.

    `on_step` is called with each step.

    Adversarial examples beyond the budget, and different answers in a fresh sandbox, are warnings here: the rules of a
    round judge them (A9, A10, A14).
    """
    if not contest.file.trial_pictures:
        return [], []
    with open_trial_match(
        contest, candidate, backend, trial_pictures(contest, candidate.task), on_step=on_step
    ) as match:
        steps = match.play()
    warnings = [f"match, {step.name}: {step.near_limit}" for step in steps if step.near_limit]
    problems = [Problem(f"match, {step.name}", step.problem, step.remedy) for step in steps if not step.passed]
    if problems and steps[-1].name in trial_match.JUDGED_BY_RULES:
        return [], [*warnings, *map(str, problems)]
    return problems, warnings


@contextmanager
def _trial_context(
    contest: Contest, task: str, roster: Roster, images: Mapping[str, Image], backend: Backend, samples: Samples
) -> Iterator[RoundContext]:
    """Makes a context with temporary blobs; on exit, ends everything that was started in it."""
    with tempfile.TemporaryDirectory(prefix="sparring-trial-") as scratch:
        context = assemble_context(
            contest.file,
            contest.format,
            round="trial-match",
            task=contest.make_task(samples, task),
            samples=samples,
            secret=secrets.token_bytes(SECRET_BYTES),
            roster=roster,
            images=images,
            backend=backend,
            blobs=open_blobs(Path(scratch)),
        )
        try:
            yield context
        finally:
            with suppress(InfrastructureFault):  # the engine does not answer: the next sweep ends what is left
                backend.clean_up(ended_run=context.run)
