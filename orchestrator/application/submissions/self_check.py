"""What participants do before they submit: check a submission as the organizers will, play it, and debug it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.application.baselines import training
from orchestrator.application.rounds import entry_images, play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import trial_match_setup
from orchestrator.application.submissions.trial_match_setup import Applicant
from orchestrator.domain.outcomes import Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.execution.round_runner import EventCallback
from orchestrator.intake import admission, image_build, image_check, manifest
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.compliance.debug_session import DebugSession
from orchestrator.intake.compliance.trial_match import CheckStep
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.image_build import ImageBuildOptions
from orchestrator.intake.manifest import Manifest
from orchestrator.measures import uncertainty
from orchestrator.protocol.transcript import TranscriptEntry
from orchestrator.reports import example_choice
from orchestrator.reports.examples import Example
from orchestrator.sandboxes.base import Backend, Image, ImageSource

MANIFEST_STEP, BUILD_STEP, POLICY_STEP, SCORE_STEP = "manifest", "build", "image policy", "expected score"
MAX_PICTURES = 50
"""The most pictures of the public sample on which the expected score is measured."""
MAX_EXAMPLES = 12
"""The most pictures on the page of a trial."""
_BASELINE_REMEDY = f"on process {training.INSTALL_REMEDY}, on docker `sparring image build`"
OnStep = Callable[[CheckStep], None]
"""A function that is called with each step once it is made."""


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """The submission to check: a folder with a manifest, or an image with its side."""

    folder: Path | None = None
    image: str = ""
    side: Side | None = None


@dataclass(frozen=True)
class CheckSetup:
    """The terms of a check: the contest, one of its tasks, and the backend."""

    contest: Contest
    task: str
    backend: Backend
    workspace: Path
    """The folder in which build logs may be written."""

    @property
    def samples(self) -> Samples:
        """The first public pictures: the task's `sample`, or its dataset without one. Raises Rejected."""
        found = self.contest.load_public_samples(self.task) or self.contest.load_samples(self.task)
        return found.first(min(MAX_PICTURES, len(found)))


@dataclass(eq=False)
class CheckReport:
    """The result of a check: its steps, the player's last conversation, and its standard error."""

    steps: list[CheckStep] = field(default_factory=list)
    conversation: list[TranscriptEntry] = field(default_factory=list)
    stderr: bytes = b""
    build_log: list[str] = field(default_factory=list)
    """The lines of the build log, printable."""

    @property
    def passed(self) -> bool:
        """Whether no step failed."""
        return all(step.passed is not False for step in self.steps)


@dataclass(frozen=True)
class TryResult:
    """The results of a defence on public pictures, clean and under one attack, with some of the pictures."""

    attack: str
    defence: str
    clean: Tally
    attacked: Tally
    applicant: str
    """The id of the submission, of the two, that was tried."""
    faults: dict[str, int]
    """The number of pictures with a fault of either side, by `submission: code`."""
    examples: list[Example]


@contextmanager
def check_setup(contest: Contest, task: str | None, backend: str) -> Iterator[CheckSetup]:
    """Makes the terms of a check, with a backend whose files are removed on exit. Trusts the participant's own code."""
    with tempfile.TemporaryDirectory(prefix="sparring-trial-") as workspace:
        ready = play_rounds.ready_backend(contest, Path(workspace), RunOptions(backend, allow_unisolated=True))
        yield CheckSetup(contest, task or contest.only_task, ready, Path(workspace))


def check_submission(subject: CheckSubject, setup: CheckSetup, on_step: OnStep) -> CheckReport:
    """Checks a submission up to the first step that fails. Calls `on_step` with each step, and returns them all.

    Raises:
        InfrastructureFault: something of ours failed, which says nothing about the submission.
    """
    done = CheckReport()

    def note(step: CheckStep) -> bool:
        done.steps.append(step)
        on_step(step)
        return step.passed is not False

    applicant = _admit_subject(subject, setup, note, done.build_log)
    if applicant is None:
        return done
    with trial_match_setup.open_trial_match(
        setup.contest, applicant, setup.backend, _match_samples(setup), on_step=note, keep=True
    ) as match:
        match.play()
    done.conversation = [entry for each in match.recorder.conversations[-1:] for entry in each]
    done.stderr = match.recorder.stderr
    if done.passed:
        note(_score_step(applicant, setup))
    return done


def admit_applicant(subject: CheckSubject, setup: CheckSetup) -> Applicant:
    """Makes the steps of admission and returns the applicant. Raises Rejected with the first step that failed."""
    failed: list[CheckStep] = []

    def note(step: CheckStep) -> bool:
        if step.passed is False:
            failed.append(step)
        return step.passed is not False

    found = _admit_subject(subject, setup, note, [])
    if found is None:
        step = failed[0]
        place = step.detail if step.name == MANIFEST_STEP else step.name
        raise Rejected(place, [Problem(step.name, step.problem, step.remedy)])
    return found


@contextmanager
def debug_session(own: Applicant, setup: CheckSetup) -> Iterator[DebugSession]:
    """Opens a conversation with an applicant about the public pictures; ends its player on exit."""
    with trial_match_setup.solo_context(setup.contest, own, setup.backend, setup.samples) as (context, device):
        session = DebugSession(context, own.submission, device)
        try:
            yield session
        finally:
            session.close()


def play_against(own: Applicant, against: str, setup: CheckSetup, watch: EventCallback) -> TryResult:
    """Plays an applicant against one baseline, on the public pictures.

    Raises:
        UsageError: there is no such baseline on the other side, or it could not play a single picture here.
        Rejected: the backend cannot start the baseline.
    """
    other, image = _admit_opponent(against, own.side, setup)
    if other.id == own.name:
        own = replace(own, name="candidate")
    players = {own.submission: own.image, other: image}
    with trial_match_setup.play_trial_round(setup.contest, own.task, players, setup.backend, setup.samples, watch) as (
        record,
        scoring,
    ):
        attack, defence = (own.name, other.id) if own.side is Side.ATTACK else (other.id, own.name)
        faults: dict[str, int] = {}
        for step in (step for steps in record.round.steps.values() for step in steps.values()):
            for fault in step.faults:
                key = f"{fault.submission or step.submission}: {fault.code}"
                faults[key] = faults.get(key, 0) + fault.pictures
        clean, attacked = scoring.tallies[Cell(defence)], scoring.tallies[Cell(defence, attack)]
        unplayed = attacked.forfeits if own.side is Side.DEFENCE else clean.faults + clean.not_played
        if unplayed == clean.total and (codes := [key for key in faults if key.startswith(f"{other.id}: ")]):
            failed = f"the baseline could not play here, so nothing was measured ({', '.join(codes)})"
            raise UsageError(f"{failed}; {_BASELINE_REMEDY}")
        return TryResult(
            attack,
            defence,
            clean,
            attacked,
            own.name,
            faults,
            example_choice.choose_examples(record, scoring, MAX_EXAMPLES),
        )


def opponents(contest: Contest, side: Side) -> list[str]:
    """Returns the names of a contest's baselines against which a submission of this side can be tried.

    The format's own attacks are no programs, and are not among them.
    """
    brought = {attack.name for attack in contest.format.organizer_attacks()}
    roster = admission.describe_roster(contest)
    return [s.id for s in roster if s.baseline and s.side is not side and s.id not in brought]


def accuracy_text(tally: Tally) -> str:
    """Returns an accuracy with its 95 % interval in words."""
    limits = uncertainty.accuracy_intervals(tally.held, tally.total)
    low, high = 100 * float(limits.low), 100 * float(limits.high)
    return f"{100 * float(tally.accuracy):.1f} % ({low:.0f} to {high:.0f})"


def _match_samples(setup: CheckSetup) -> Samples:
    samples = setup.samples
    return samples.first(min(len(samples), max(1, setup.contest.file.trial_pictures)))


def _admit_subject(
    subject: CheckSubject, setup: CheckSetup, note: Callable[[CheckStep], bool], log: list[str]
) -> Applicant | None:
    """Makes the steps before a player is started; returns the applicant, None if a step failed."""
    side, source, described = subject.side, ImageSource(image=subject.image or None, trusted=True), None
    if subject.folder is None:
        if side is None:
            raise UsageError("an image has no manifest: give --side attack or --side defence")
        note(CheckStep(MANIFEST_STEP, None, "an image has none"))
        note(CheckStep(BUILD_STEP, None, "it is built already"))
    else:
        try:
            described = manifest.read_manifest(subject.folder)
        except Rejected as error:
            note(_failed_step(MANIFEST_STEP, str(subject.folder / manifest.FILE_NAME), error))
            return None
        side = described.side
        # A defence may be the organizers' hidden model, in a contest whose teams submit pictures.
        if side is Side.ATTACK and (problems := setup.contest.format.side_problems(side)):
            place = str(subject.folder / manifest.FILE_NAME)
            note(_failed_step(MANIFEST_STEP, place, Rejected(place, problems)))
            return None
        detail = f"{described.name}, {described.side}, licence {described.licence or 'not named'}"
        missing = setup.contest.format.release_warnings(described)
        note(CheckStep(MANIFEST_STEP, True, detail, near_limit="; ".join(missing)))
        image, go_on = _build_image(subject.folder, described, setup, note, log)
        if not go_on:
            return None
        source = ImageSource(folder=subject.folder, image=image, command=tuple(described.command), trusted=True)
    try:
        image_found = setup.backend.admit(source)
    except Rejected as error:
        note(_failed_step(POLICY_STEP, "it would not be admitted", error))
        return None
    note(_policy_step(image_found, setup))
    return Applicant(setup.task, side, image_found, described.name if described else "candidate")


def _build_image(
    folder: Path, described: Manifest, setup: CheckSetup, note: Callable[[CheckStep], bool], log: list[str]
) -> tuple[str | None, bool]:
    """Builds the image of a folder; returns its name, None on the process backend, and whether to go on."""
    if setup.backend.name == "process":
        note(CheckStep(BUILD_STEP, None, "the process backend starts the folder itself"))
        return None, True
    cuda = setup.contest.file.limits.gpus and described.gpu
    flavour = "cuda" if cuda else "cpu"
    has_own_name = described.image and image_build.shipped_folder_with_image(folder, described.image) is None
    options = ImageBuildOptions(
        flavour=flavour, tag=described.image if has_own_name else f"sparring-trial/{described.name}"
    )
    try:
        prepared = image_build.prepare_build(folder, options)
        recipe = prepared.recipe
        identity = setup.backend.image_store().build(recipe, log.append)
        BuildRecord.of_user().add(prepared.tree.digest, flavour, identity)
    except Rejected as error:
        note(_failed_step(BUILD_STEP, "the image was not built", error))
        return None, False
    note(CheckStep(BUILD_STEP, True, f"{recipe.tag} is {identity}"))
    return recipe.tag, True


def _policy_step(image: Image, setup: CheckSetup) -> CheckStep:
    if image.folder is not None:
        return CheckStep(POLICY_STEP, None, "no image: the folder was copied, as it will be at the organizers'")
    # Files of the base image gain nothing in a sandbox, so warnings about them are left to `sparring image inspect`.
    warnings = image_check.inspect_image(setup.backend, image.digest).warnings
    close = "; ".join(str(problem) for problem in warnings if problem.place != "files")
    return CheckStep(POLICY_STEP, True, f"{image.name} is {image.digest}", near_limit=close)


def _failed_step(name: str, detail: str, error: Rejected) -> CheckStep:
    if len(error.problems) == 1:
        [problem] = error.problems
        return CheckStep(name, False, detail, f"{problem.place}: {problem.what}", problem.remedy)
    problems = [f"{each.place}: {each.what}" + (f" ({each.remedy})" if each.remedy else "") for each in error.problems]
    return CheckStep(name, False, detail, "; ".join(problems), f"fix these {len(problems)} problems")


def _score_step(applicant: Applicant, setup: CheckSetup) -> CheckStep:
    """Returns a step with the applicant's score on the public pictures against the first baseline that plays here."""
    names = opponents(setup.contest, applicant.side)
    if not names and setup.contest.format.organizer_attacks() and applicant.side is Side.DEFENCE:
        what = "the contest's attacks are its own, and a check plays none; those of a warm-up: `sparring evaluate`"
        return CheckStep(SCORE_STEP, None, what)
    if not names:
        other = Side.DEFENCE if applicant.side is Side.ATTACK else Side.ATTACK
        what = f"the contest file names no {other} to play against: add one under `baselines`"
        return CheckStep(SCORE_STEP, None, what)
    for name in names:
        try:
            tried = play_against(applicant, name, setup, lambda _: None)
        except (Rejected, UsageError):
            continue  # this machine lacks the baseline's image, or a package that it imports: try the next one
        if any(place.startswith(f"{name}: ") for place in tried.faults):
            continue  # the baseline failed here, so nothing was measured
        if applicant.side is Side.ATTACK:
            loss = 100 * float(tried.clean.accuracy - tried.attacked.accuracy)
            worth = f"{accuracy_text(tried.clean)} on clean pictures, {accuracy_text(tried.attacked)} under it"
            detail = f"{name}: {worth}, delta {loss:.1f}"
        else:
            detail = f"{accuracy_text(tried.clean)} on clean pictures, {accuracy_text(tried.attacked)} under {name}"
        return CheckStep(SCORE_STEP, True, f"{detail}; on {tried.clean.total} public pictures")
    return CheckStep(SCORE_STEP, None, f"no baseline of the contest plays here: {_BASELINE_REMEDY}")


def _admit_opponent(name: str, side: Side, setup: CheckSetup) -> tuple[Submission, Image]:
    known = opponents(setup.contest, side)
    if name not in known:
        raise UsageError(
            f"no baseline {name!r} to try a submission against; the contest has {', '.join(known) or 'none'}"
        )
    identify = entry_images.admitter_with_builds(setup.backend, setup.workspace)
    return admission.admit_baseline(setup.contest, identify, name)
