"""Grading by people, as organizers run it: plan it, give each rater a page, and record the answers."""

import base64
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.application.grading.graded_pictures import GradedPictures, encode_png
from orchestrator.application.rounds import round_record
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.human_grading import NOT_GRADED, GradedTask, GradingProgress, HumanGrading, ReceivedAnswers
from orchestrator.domain.samples import Pixels
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import iso_time, shell_word
from orchestrator.errors import UsageError
from orchestrator.files import write_whole
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder

MAX_ANSWER_BYTES = 64 * 1024**2
"""The most bytes of a rater's file."""


def plan_grading(admin: ContestAdmin, raters: Sequence[str], task: str | None = None) -> FormatEvent:
    """Draws which rater grades which pictures of the last round's ranked submissions, and records the plan.

    Raises:
        UsageError: the format has no human grading, submissions are still received, or the round is not complete.
        Rejected: with all reasons why it cannot be planned so.
    """
    grading, name = required_grading(admin.contest), task or admin.contest.only_task
    with admin.alone():
        window = submission_window(admin.contest.file, admin.season.closing, admin.now())
        if window.state != "closed":
            # The plan has the same pictures of every submission: a later submission would not be graded.
            until = f"until {iso_time(window.closes)}" if window.closes else "until you close them"
            raise UsageError(
                f"submissions are received {until}, and nobody would grade what comes after the plan; plan after the "
                f"close, or close them now (`sparring contest close {shell_word(admin.folder.path)}`)"
            )
        folder = _played_round(admin, name)
        event = grading.plan(_graded(admin, name), _graded_submissions(folder), raters, folder.secret())
        admin.append_event(event)
    return event


def plan_more(
    admin: ContestAdmin, appeals: Mapping[str, Sequence[int]], raters: Sequence[str], task: str | None = None
) -> FormatEvent:
    """Draws raters for missing answers and for appeals, and records the plan. Raises like `plan_grading`."""
    grading, name = required_grading(admin.contest), task or admin.contest.only_task
    with admin.alone():
        secret = _played_round(admin, name).secret()
        event = grading.supplement(_graded(admin, name), appeals, raters, secret)
        admin.append_event(event)
    return event


def export_pages(admin: ContestAdmin, out: Path, task: str | None = None) -> list[Path]:
    """Writes the page of every rater of the latest plan into a new folder, and returns the pages' paths.

    Raises:
        UsageError: the format has no human grading, or `out` exists already.
        Rejected: there is no plan.
    """
    grading, name = required_grading(admin.contest), task or admin.contest.only_task
    if out.exists():
        raise UsageError(f"{out} is there already; give a new folder")
    graded = _graded(admin, name)
    pictures = GradedPictures(admin.folder.blobs(), admin.contest.load_samples(name).pixels)
    pages = list(grading.pages(graded, partial(pictures.picture, admin.season), _base64_png))
    with _made_folder(out):
        for file, text in pages:
            write_whole(out / file, text.encode())
    return [out / file for file, _ in pages]


def import_answers(admin: ContestAdmin, files: Sequence[Path], task: str | None = None) -> list[ReceivedAnswers]:
    """Records the answers that raters saved to files, of all files or of none; returns each file's answers.

    Raises:
        UsageError: the format has no human grading, or a file cannot be read.
        Rejected: with all problems of the first invalid file.
    """
    grading, name = required_grading(admin.contest), task or admin.contest.only_task
    texts = [(path, _read_text(path)) for path in files]
    received: list[ReceivedAnswers] = []
    with admin.alone():
        graded = _graded(admin, name)
        for path, text in texts:
            before = [each.event for each in received]
            received.append(grading.answers(graded, text, csv=path.suffix.lower() == ".csv", before=before))
        for each in received:
            admin.append_event(each.event)
    return received


def grading_progress(contest: Contest, season: Season, task: str | None = None) -> GradingProgress:
    """Returns the raters' progress. Raises UsageError if nobody grades, and Rejected if there is no plan."""
    grading = required_grading(contest)
    return grading.progress(graded_task(contest, season, task or contest.only_task))


def count_answers(admin: ContestAdmin) -> None:
    """Removes the boards' results, so that they are computed again with all answers that raters gave so far.

    Answers that raters give one by one do not update boards, since there are thousands of them.
    """
    required_grading(admin.contest)
    with admin.alone():
        admin.discard_results()


def required_grading(contest: Contest) -> HumanGrading:
    """Returns a contest's human grading. Raises UsageError if it has none."""
    grading: HumanGrading | None = contest.format.human_grading()
    if grading is None:
        raise UsageError(
            f"nobody grades in this contest of the format {contest.file.format}; "
            "set `rules.grading`, if the format has it"
        )
    return grading


def graded_task(contest: Contest, season: Season, task: str, actor: str = "") -> GradedTask:
    """Returns a task to be graded. `actor` is the actor of its events, "" if it is only read."""
    samples = contest.load_samples(task)
    return GradedTask(contest.file.contest, contest.make_task(samples, task), samples.labels, season, actor)


def _graded(admin: ContestAdmin, task: str) -> GradedTask:
    return graded_task(admin.contest, admin.season, task, admin.actor)


def _base64_png(picture: Pixels) -> str:
    return base64.b64encode(encode_png(picture)).decode("ascii")


def _played_round(admin: ContestAdmin, task: str) -> RoundFolder:
    """Returns the folder of a task's last round. Raises UsageError if the round is not complete."""
    last = admin.contest.format.rounds(admin.season, task)[-1].name
    if (last, task) not in admin.season.played_rounds:
        raise UsageError(
            f"the round {last} of {task} was not played; "
            f"run `sparring round run {shell_word(admin.folder.path)} {last}`"
        )
    return admin.folder.round(last, task)


def _graded_submissions(folder: RoundFolder) -> list[str]:
    """Returns the ids of the attacks whose pictures are graded, in order: those that a board ranks.

    Once there is a plan, a board ranks nobody before the first answers: then the attacks count that lack a rank only
    because they are not graded yet.
    """
    results = round_record.compute_results(folder.path)
    attacks = {part.id for part in results.submissions if part.side is Side.ATTACK}
    rows = [row for board in results.boards for row in board.rows if row.rank or row.reason == NOT_GRADED]
    return sorted({row.submission for row in rows} & attacks)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ANSWER_BYTES + 1)
        if len(data) > MAX_ANSWER_BYTES:
            raise UsageError(f"{path} has more than {MAX_ANSWER_BYTES} bytes; it is no file of a grading page")
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; give a file that a grading page saved") from None


@contextmanager
def _made_folder(path: Path) -> Iterator[None]:
    """Creates a folder, and removes it if the block fails. Raises UsageError if it cannot be created."""
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error}; give another folder") from error
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
