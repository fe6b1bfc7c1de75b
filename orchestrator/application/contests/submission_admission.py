"""Admits submissions to a contest, or refuses them with all reasons.

Several processes may admit at once: what was checked before a trial match is checked again when the event is appended.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from orchestrator.application.contests import contest_receipts
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.admission_steps import UNWATCHED, StepLog
from orchestrator.application.contests.submission_allowance import utc_day
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.application.submissions import image_ownership, trial_match_setup
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import iso_time, printable
from orchestrator.errors import Problem, Rejected
from orchestrator.intake import manifest
from orchestrator.intake.manifest import Manifest
from orchestrator.sandboxes.base import Backend, Image, ImageSource

_MAX_PROBLEMS = 50
"""The most problems of one submission that a refusal records; the rest are counted."""
_PROBLEM_LIMIT = 4000
"""The most characters of one problem that a refusal records."""


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A submission to admit: a folder with a manifest, or an image with its name and side. A package gives both."""

    team: str
    task: str
    folder: Path | None = None
    image: str = ""
    name: str = ""
    side: Side | None = None
    file_name: str = ""
    """The name of the submitted file, which names the submission in errors before its manifest is read."""
    is_pictures: bool = False
    """Whether the submission is an archive of pictures, for which no player is started."""
    arrival: str = ""
    """The arrival that this request comes from; its time, day and actor are used. Empty for `sparring submit`."""
    arrived_at: datetime | None = None
    """When the last byte arrived, for a file that has no arrival in the ledger yet; it is judged by this time."""

    def completed(self, found: Manifest | None) -> "SubmissionRequest":
        """Returns the request with the manifest's name and side where it gives none itself."""
        return self if found is None else replace(self, name=self.name or found.name, side=self.side or found.side)


def submit(admin: ContestAdmin, request: SubmissionRequest, backend: Backend, steps: StepLog = UNWATCHED) -> Receipt:
    """Admits a submission and returns its signed receipt.

    If the team submits the same again while the first is active, returns the first receipt and counts no attempt.

    Raises:
        Rejected: with all reasons. The refusal is recorded, counts as no attempt of the team, and leaves no files.
    """
    with ExitStack() as undo:
        return _admit(admin, request, backend, undo, steps)


def _admit(
    admin: ContestAdmin, request: SubmissionRequest, backend: Backend, undo: ExitStack, steps: StepLog
) -> Receipt:
    found, problems = _read_manifest(request)
    request = request.completed(found)
    admin.signing_key()  # raises before anything is recorded: without a receipt, nothing is received
    dubious = time_and_field_problems(admin, request, found)
    problems += dubious + _team_problems(admin, request)
    image, refused = _admit_image(admin, request, found, backend, steps)
    problems += refused
    if image is not None:
        undo.callback(_take_back, admin, image)
        foreign = _ownership_problems(admin, request, image)
        steps.result("ownership", foreign)
        dubious, problems = dubious + foreign, problems + foreign
    warnings: list[str] = []
    if image is not None and request.side is not None:
        act = received_event(admin, request, request.side, image, found)
        if (before := earlier_receipt(admin, act)) is not None:
            undo.pop_all()
            return before
        if not dubious:  # the trial match does not start a submission that is refused anyway
            candidate = trial_match_setup.Applicant(request.task, request.side, image)
            unfit, warnings = trial_match_setup.play_trial_match(admin.contest, candidate, backend, steps.match_step)
            problems += unfit
    if problems or image is None or request.side is None:
        refuse(admin, request, problems)
    format_warnings = admin.contest.format.submission_warnings(admin.season, act)
    with admin.alone():  # during the trial match, this team or another may have submitted something
        if (before := earlier_receipt(admin, act)) is None:
            if problems := request_problems(admin, request, found) + _missing_files_problem(image):
                refuse(admin, request, problems)
            act = received_event(admin, request, request.side, image, found)
            act = act.model_copy(update={"warnings": [*format_warnings, *admin.clock_warnings(), *warnings]})
        undo.pop_all()  # the submission is recorded from here on, so its files stay
        return before or contest_receipts.receive(admin, act)


def _read_manifest(request: SubmissionRequest) -> tuple[Manifest | None, list[Problem]]:
    if request.folder is None:
        if request.image and request.name:
            return None, []
        return None, [Problem("submission", "neither a folder nor a named image", "give a folder, or --name")]
    try:
        return manifest.read_manifest(request.folder), []
    except Rejected as error:
        return None, list(error.problems)


def _admit_image(
    admin: ContestAdmin, request: SubmissionRequest, found: Manifest | None, backend: Backend, steps: StepLog
) -> tuple[Image | None, list[Problem]]:
    """Returns the admitted image, or None with the problems; None without a problem if no manifest names one."""
    if found is None and request.folder is not None:
        return None, []
    flavour = "cuda" if admin.contest.file.limits.gpus and found and found.gpu else "cpu"
    tag = manifest.with_tag(request.image or (found.image if found else ""), flavour)
    command = tuple(found.command) if found else ()
    try:
        image = backend.admit(ImageSource(folder=request.folder, image=tag, command=command))
    except Rejected as error:
        steps.result("image policy", error.problems)
        return None, list(error.problems)
    steps.add("image policy", True)
    return image, []


def _take_back(admin: ContestAdmin, image: Image) -> None:
    """Removes the copy that admission made of a refused submission, unless a received one has the same digest."""
    if image.rollback is None:
        return
    with admin.alone():
        if all(entry.digest != image.digest for entry in admin.season.entries.values()):
            image.rollback()


def _missing_files_problem(image: Image) -> list[Problem]:
    """Returns a problem if the refusal of another submission with the same files has just removed them."""
    if image.folder is None or image.folder.is_dir():
        return []
    problem = "the same files were refused for another submission at this moment, and taken away"
    return [Problem("submission", problem, "submit it again")]


def refuse(admin: ContestAdmin, request: SubmissionRequest, problems: list[Problem]) -> NoReturn:
    """Records that a submission was refused, and raises Rejected. It counts as no attempt of the team."""
    shown, hidden = problems[:_MAX_PROBLEMS], len(problems) - _MAX_PROBLEMS
    shown += [Problem("submission", f"and {hidden} more problems")] if hidden > 0 else []
    # Refused fields may hold characters that a record cannot keep: it keeps their printable form.
    admin.append_event(
        contest_events.SubmissionRefused(
            actor=_actor_of(admin, request),
            name=printable(request.name),
            team=printable(request.team),
            task=printable(request.task),
            side=request.side,
            problems=[printable(str(problem), _PROBLEM_LIMIT) for problem in shown],
            arrival=request.arrival,
        )
    )
    called = request.name or request.file_name or request.folder or request.image
    raise Rejected(f"submission {called}", shown)


def request_problems(admin: ContestAdmin, request: SubmissionRequest, found: Manifest | None) -> list[Problem]:
    """Returns the problems that show before the files are read: with the time, the fields, and the team's rules."""
    request = request.completed(found)
    return time_and_field_problems(admin, request, found) + _team_problems(admin, request)


def time_and_field_problems(admin: ContestAdmin, request: SubmissionRequest, found: Manifest | None) -> list[Problem]:
    """Returns the problems with the time, and with fields that are missing, invalid or contradictory."""
    problems, tasks = _time_problems(admin, request), [task.name for task in admin.contest.file.all_tasks]
    if request.task not in tasks:
        problems.append(Problem("task", f"there is no {request.task!r}", f"one of {', '.join(tasks)}"))
    if request.side is None and request.folder is None:
        problems.append(Problem("side", "is missing", "give --side attack or --side defence"))
    if found is not None and request.side != found.side:
        contradiction = f"{request.side} was asked for, its submission.yaml says {found.side}"
        problems.append(Problem("side", contradiction, "make them agree"))
    if request.side is not None and not request.is_pictures:
        problems += admin.contest.format.side_problems(request.side)
    if request.name and not manifest.is_slug(request.name):
        what = f"{request.name!r} is no name"
        problems.append(Problem("name", what, "1 to 64 of a-z, 0-9, _ and -, no _ or - first"))
    return problems


def _time_problems(admin: ContestAdmin, request: SubmissionRequest) -> list[Problem]:
    """Returns a problem before submissions open and after they close.

    An arrival is judged by its own time, however long its admission takes. A submission came before the organizers
    closed submissions if its arrival is in the ledger, or if its last byte arrived before that.
    """
    file, arrived = admin.contest.file, _arrival_time(admin, request)
    clock = arrived or request.arrived_at or admin.now()
    if file.opens and clock < file.opens:
        return [Problem("time", f"submissions open at {iso_time(file.opens)}", "come back then")]
    judged, closing = _judged_time(admin, request), admin.season.closing
    came_before = arrived or (closing is not None and judged < datetime.fromisoformat(closing.time))
    window = submission_window(file, None if came_before else closing, judged)
    if window.state != "closed" or window.closes is None:
        return []
    if window.closing is not None:
        why = f" ({window.reason})" if window.reason else ""
        what = f"the organizers closed submissions at {window.closing.time}{why}, and this was not here by then"
        return [Problem("time", what, "nothing can be added unless they open them again")]
    came = f"this came at {clock.isoformat(timespec='milliseconds')}"
    remedy = "nothing can be added"
    if clock < window.closes:
        remedy = f"the ledger has an entry of {admin.latest_time}: the clock was set back; set it, or move `closes`"
    return [Problem("time", f"submissions closed at {iso_time(window.closes)}, and {came}", remedy)]


def _team_problems(admin: ContestAdmin, request: SubmissionRequest) -> list[Problem]:
    """Returns the problems by the rules for teams (A1, A4, C9), none without a side that can be submitted."""
    side, rules = request.side, admin.contest.format
    if side is None or (side not in rules.programs and not request.is_pictures):
        return []
    problems: list[Problem] = rules.entry_problems(admin.season, request.team, request.task, side)
    allowed, day = rules.submissions_per_day(), _day_of(admin, request)
    if allowed is not None and admin.season.count_on_day(request.team, request.task, day) >= allowed:
        who = f"{request.team}, or somebody in it through another team,"
        what = f"{who} has submitted {allowed} of {allowed} on {day} (C9)"
        problems = [*problems, Problem("submission", what, "come back after midnight UTC")]
    return problems


def _ownership_problems(admin: ContestAdmin, request: SubmissionRequest, image: Image) -> list[Problem]:
    """Returns the problems if an image that is only named may belong to another team; see `image_ownership`."""
    if image.folder is not None or (request.folder is not None and request.image):
        return []
    return list(image_ownership.ownership_problems(admin.season, request.team, request.folder, image))


def received_event(
    admin: ContestAdmin, request: SubmissionRequest, side: Side, image: Image, found: Manifest | None
) -> contest_events.SubmissionReceived:
    """Returns the event of receiving a submission now, without warnings."""
    attempt = admin.season.count_attempts(request.team, request.task, side) + 1
    return contest_events.SubmissionReceived(
        actor=_actor_of(admin, request),
        arrival=request.arrival,
        id=_free_id(admin, request.name),
        name=request.name,
        team=request.team,
        task=request.task,
        side=side,
        digest=image.digest,
        image=image.name,
        folder="" if image.folder is None else str(image.folder.relative_to(admin.folder.path.resolve())),
        licence=found.licence if found else "",
        source=found.source if found else "",
        attempt=attempt,
        attempts_left=_attempts_left(admin, request, attempt),
    )


def earlier_receipt(admin: ContestAdmin, act: contest_events.SubmissionReceived) -> Receipt | None:
    """Returns the receipt of the team's active submission that is the same as this one, None if there is none."""
    for known in contest_receipts.received_submissions(admin):
        entry = admin.season.entries.get(known.event.id)  # None if another command received it just now
        if entry is not None and entry.is_active and _identity(known.event) == _identity(act):
            return contest_receipts.write_receipt(admin, known)
    return None


def _identity(act: contest_events.SubmissionReceived) -> object:
    """Returns a value that is equal for two events if they are the same submission, submitted twice."""
    return act.model_dump(include={"name", "team", "task", "side", "digest", "licence", "source"})


def _free_id(admin: ContestAdmin, name: str) -> str:
    """Returns an id that no submission and no baseline has: the name, or the name with a number."""
    used_ids = admin.baselines | admin.season.entries.keys()
    numbers = (f"{name}-{number}" for number in range(2, len(used_ids) + 3))
    return next(candidate for candidate in (name, *numbers) if candidate not in used_ids)


def _attempts_left(admin: ContestAdmin, request: SubmissionRequest, attempt: int) -> int:
    """Returns how many submissions the team has left after this one, by A4 and, today, by C9; 0 without a limit."""
    rules, left = admin.contest.format, []
    if (allowed := rules.submissions_per_team()) is not None:
        left.append(allowed - attempt)
    if (daily := rules.submissions_per_day()) is not None:
        left.append(daily - admin.season.count_on_day(request.team, request.task, _day_of(admin, request)) - 1)
    return max(0, min(left, default=0))


def _arrival_time(admin: ContestAdmin, request: SubmissionRequest) -> datetime | None:
    """Returns the time of the request's arrival in the ledger, None for a submission by command."""
    return datetime.fromisoformat(admin.season.arrivals[request.arrival].time) if request.arrival else None


def _judged_time(admin: ContestAdmin, request: SubmissionRequest) -> datetime:
    """Returns the time by which a submission is judged: when it arrived, or now for a submission by command."""
    return _arrival_time(admin, request) or admin.counted_time(request.arrived_at or admin.now())


def _day_of(admin: ContestAdmin, request: SubmissionRequest) -> str:
    return utc_day(_judged_time(admin, request))


def _actor_of(admin: ContestAdmin, request: SubmissionRequest) -> str:
    return admin.season.arrivals[request.arrival].actor if request.arrival else admin.actor
