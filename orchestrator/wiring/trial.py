"""What participants do before they hand in: check a submission as the organizers will, try it, hear what it says."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.arena.dispatcher import Watch
from orchestrator.backends.base import Backend, Image, Source
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import Tally
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import admission, build, image_check, manifest
from orchestrator.intake.build import Wanted
from orchestrator.intake.built import Record
from orchestrator.intake.compliance.match import Step
from orchestrator.intake.compliance.rehearsal import Rehearsal
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.manifest import Manifest
from orchestrator.measures import uncertainty
from orchestrator.results import gallery
from orchestrator.results.examples import Example
from orchestrator.wire.transcript import Entry
from orchestrator.wiring import building, friendly, machine
from orchestrator.wiring.friendly import Candidate

MANIFEST, BUILD, POLICY, SCORE = "manifest", "build", "image policy", "expected score"
PICTURES = 50
"""Pictures of the public sample that the expected score is of."""
SHOWN = 12
"""Pictures on the page of a trial."""
Tell = Callable[[Step], None]
"""Is told each step once it is made."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried: a folder with a manifest, or an image of a side."""

    folder: Path | None = None
    image: str = ""
    side: Side | None = None


@dataclass(frozen=True)
class Terms:
    """Under which terms: the contest's, one of its tasks, and where it is played."""

    contest: Contest
    task: str
    backend: Backend
    workspace: Path
    """Where logs of builds may go."""

    @property
    def samples(self) -> Samples:
        """The public pictures: the task's `sample`, else its dataset, which who runs this has. Raises Rejected."""
        found = self.contest.sample(self.task) or self.contest.samples(self.task)
        return found.first(min(PICTURES, len(found)))


@dataclass(eq=False)
class Checked:
    """A check: its steps, and what the player said last."""

    steps: list[Step] = field(default_factory=list)
    conversation: list[Entry] = field(default_factory=list)
    stderr: bytes = b""
    build_log: list[str] = field(default_factory=list)
    """What the builder said, printable, line by line."""

    @property
    def passed(self) -> bool:
        """Whether no step failed."""
        return all(step.passed is not False for step in self.steps)


@dataclass(frozen=True)
class Tried:
    """A single cell on public pictures: the defence on clean pictures and under the attack, and some pictures."""

    attack: str
    defence: str
    clean: Tally
    attacked: Tally
    own: str
    """Which of the two was tried."""
    faults: dict[str, int]
    """Faults of either side, by `submission: code`."""
    examples: list[Example]


@contextmanager
def terms(contest: Contest, task: str | None, backend: str) -> Iterator[Terms]:
    """Gives the terms of a trial; what the backend kept is gone afterwards. The participant's own code is trusted."""
    with tempfile.TemporaryDirectory(prefix="sparring-trial-") as workspace:
        made = machine.backend(backend, Path(workspace), allow_unisolated=True)
        made.check(contest.file.runtime)
        yield Terms(contest, task or contest.only_task, made, Path(workspace))


def check(subject: Subject, under: Terms, tell: Tell) -> Checked:
    """Returns every step up to the first that failed, told one by one.

    Raises:
        InfrastructureFault: something of ours failed: that says nothing of the submission.
    """
    done = Checked()

    def note(step: Step) -> bool:
        done.steps.append(step)
        tell(step)
        return step.passed is not False

    own = _admitted(subject, under, note, done.build_log)
    if own is None:
        return done
    with friendly.prepared(under.contest, own, under.backend, _few(under), tell=note, keep=True) as played:
        played.play()
    done.conversation = [entry for each in played.heard.conversations[-1:] for entry in each]
    done.stderr = played.heard.stderr
    if done.passed:
        note(_score(own, under))
    return done


def candidate(subject: Subject, under: Terms) -> Candidate:
    """Returns what would be admitted. Raises Rejected with the first step that failed."""
    failed: list[Step] = []

    def note(step: Step) -> bool:
        if step.passed is False:
            failed.append(step)
        return step.passed is not False

    found = _admitted(subject, under, note, [])
    if found is None:
        raise Rejected(failed[0].name, [Problem(failed[0].name, failed[0].problem, failed[0].remedy)])
    return found


@contextmanager
def rehearsal(own: Candidate, under: Terms) -> Iterator[Rehearsal]:
    """Gives a conversation with a candidate about the public pictures; at the end its player is gone."""
    with friendly.alone(under.contest, own, under.backend, under.samples) as (setting, device):
        held = Rehearsal(setting, own.submission, device)
        try:
            yield held
        finally:
            held.close()


def attempt(own: Candidate, against: str, under: Terms, watch: Watch) -> Tried:
    """Plays a candidate against one baseline, on the public pictures.

    Raises:
        UsageError: there is no such baseline on the other side.
        Rejected: the backend cannot start it.
    """
    other, image = _baseline(against, own.side, under)
    if other.id == own.name:
        own = replace(own, name="candidate")
    players = {own.submission: own.image, other: image}
    with friendly.round_(under.contest, own.task, players, under.backend, under.samples, watch) as (record, scoring):
        attack, defence = (own.name, other.id) if own.side is Side.ATTACK else (other.id, own.name)
        faults: dict[str, int] = {}
        for step in (step for steps in record.round.steps.values() for step in steps.values()):
            for fault in step.faults:
                key = f"{step.submission}: {fault.code}"
                faults[key] = faults.get(key, 0) + fault.pictures
        return Tried(
            attack,
            defence,
            scoring.tallies[Cell(defence)],
            scoring.tallies[Cell(defence, attack)],
            own.name,
            faults,
            gallery.choose(record, scoring, SHOWN),
        )


def opponents(contest: Contest, side: Side) -> list[str]:
    """Returns the names of a contest's baselines that a submission of this side can be tried against."""
    return [s.id for s in admission.described(contest, complete=False) if s.baseline and s.side is not side]


def percent(tally: Tally) -> str:
    """Returns an accuracy with its 95 % interval, for people."""
    limits = uncertainty.accuracy(tally.held, tally.total)
    low, high = 100 * float(limits.low), 100 * float(limits.high)
    return f"{100 * float(tally.accuracy):.1f} % ({low:.0f} to {high:.0f})"


def _few(under: Terms) -> Samples:
    samples = under.samples
    return samples.first(min(len(samples), max(1, under.contest.file.friendly_pictures)))


def _admitted(subject: Subject, under: Terms, note: Callable[[Step], bool], log: list[str]) -> Candidate | None:
    """Makes the steps before anything is started; returns what would be started, None where one failed."""
    side, source, described = subject.side, Source(image=subject.image or None, trusted=True), None
    if subject.folder is None:
        if side is None:
            raise UsageError("an image has no manifest: give --side attack or --side defence")
        note(Step(MANIFEST, None, "an image has none"))
        note(Step(BUILD, None, "it is built already"))
    else:
        try:
            described = manifest.read(subject.folder)
        except Rejected as error:
            note(_refused(MANIFEST, str(subject.folder / manifest.FILE_NAME), error))
            return None
        side = described.side
        note(Step(MANIFEST, True, f"{described.name}, {described.side}, licence {described.licence or 'not named'}"))
        image, go_on = _built(subject.folder, described, under, note, log)
        if not go_on:
            return None
        source = Source(folder=subject.folder, image=image, command=tuple(described.command), trusted=True)
    try:
        image_found = under.backend.admit(source)
    except Rejected as error:
        note(_refused(POLICY, "it would not be admitted", error))
        return None
    note(_policy(image_found, under))
    return Candidate(under.task, side, image_found, described.name if described else "candidate")


def _built(
    folder: Path, described: Manifest, under: Terms, note: Callable[[Step], bool], log: list[str]
) -> tuple[str | None, bool]:
    """Returns the image of a folder, where the backend has images, and whether to go on."""
    if under.backend.name == "process":
        note(Step(BUILD, None, "the process backend starts the folder itself"))
        return None, True
    cuda = under.contest.file.limits.gpus and described.gpu
    flavour = "cuda" if cuda else "cpu"
    own = described.image and build.shipped_elsewhere(folder, described.image) is None
    wanted = Wanted(flavour=flavour, tag=described.image if own else f"sparring-trial/{described.name}")
    try:
        prepared = build.prepare(folder, wanted)
        recipe = prepared.recipe
        identity = under.backend.workshop().build(recipe, log.append)
        Record.here().note(prepared.tree.digest, flavour, identity)
    except Rejected as error:
        note(_refused(BUILD, "the image was not built", error))
        return None, False
    note(Step(BUILD, True, f"{recipe.tag} is {identity}"))
    return recipe.tag, True


def _policy(image: Image, under: Terms) -> Step:
    if image.folder is not None:
        return Step(POLICY, None, "no image: the folder was copied, as it will be at the organizers'")
    # What lies in the base image's files gains nothing in a sandbox: `sparring image inspect` shows it.
    told = image_check.inspect(under.backend, image.digest).warnings
    close = "; ".join(str(problem) for problem in told if problem.place != "files")
    return Step(POLICY, True, f"{image.name} is {image.digest}", close=close)


def _refused(name: str, detail: str, error: Rejected) -> Step:
    problems = [f"{problem.place}: {problem.what}" for problem in error.problems]
    remedies = [problem.remedy for problem in error.problems if problem.remedy]
    return Step(name, False, detail, "; ".join(problems), "; ".join(dict.fromkeys(remedies)))


def _score(own: Candidate, under: Terms) -> Step:
    """Returns what it is worth on the public pictures against the first baseline that plays here."""
    for name in opponents(under.contest, own.side):
        try:
            tried = attempt(own, name, under, lambda _: None)
        except Rejected:
            continue  # the next one; this machine lacks its image
        if any(place.startswith(f"{name}: ") for place in tried.faults):
            continue  # it could not play here, so nothing was measured
        if own.side is Side.ATTACK:
            loss = 100 * float(tried.clean.accuracy - tried.attacked.accuracy)
            worth = f"{percent(tried.clean)} on clean pictures, {percent(tried.attacked)} under it"
            detail = f"{name}: {worth}, delta {loss:.1f}"
        else:
            detail = f"{percent(tried.clean)} on clean pictures, {percent(tried.attacked)} under {name}"
        return Step(SCORE, True, f"{detail}; on {tried.clean.total} public pictures")
    remedy = "on process `pip install 'sparring[demo]'`, on docker `make images`"
    return Step(SCORE, None, f"no baseline of the contest plays here: {remedy}")


def _baseline(name: str, side: Side, under: Terms) -> tuple[Submission, Image]:
    known = opponents(under.contest, side)
    if name not in known:
        raise UsageError(f"no baseline {name!r} to try a submission against; there is {', '.join(known) or 'none'}")
    identify = building.identify(under.backend, under.workspace)
    return admission.baseline(under.contest, identify, name)
