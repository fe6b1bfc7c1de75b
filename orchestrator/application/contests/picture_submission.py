"""Submissions of pictures instead of a program (rule C2)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchestrator.application.contests import contest_receipts, submission_admission
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.admission_steps import UNWATCHED, StepLog
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake import picture_entries
from orchestrator.intake.picture_archive import PictureArchive
from orchestrator.ledger.stores.base import put_array
from orchestrator.sandboxes.base import Image


def submit_pictures(admin: ContestAdmin, request: SubmissionRequest, path: Path, steps: StepLog = UNWATCHED) -> Receipt:
    """Admits the pictures in an archive and returns its signed receipt; see `submission_admission.submit`.

    Without a name in the request, the submission gets the file's name without its extension.

    Raises:
        UsageError: the request says that it is a defence.
        Rejected: with all reasons. The refusal is recorded, and counts as no attempt of the team.
    """
    if request.side is Side.DEFENCE:
        raise UsageError("pictures are what an attack made, and no defence; leave --side out")
    request = replace(request, name=request.name or path.stem, file_name=request.file_name or path.name)
    contest = admin.contest
    return admit_pictures(
        admin, request, lambda: picture_entries.read_entry_pictures(path, contest, request.task), steps
    )


def admit_pictures(
    admin: ContestAdmin, request: SubmissionRequest, read: Callable[[], PictureArchive], steps: StepLog = UNWATCHED
) -> Receipt:
    """Admits the pictures that `read` reads from an archive; see `submit_pictures`.

    `read` is called only if the time and the request's fields are valid.
    """
    admin.signing_key()  # raises before anything is recorded: without a receipt, nothing is received
    request = replace(request, side=Side.ATTACK, is_pictures=True)
    problems = submission_admission.time_and_field_problems(admin, request, None)
    archive = None
    try:
        archive = None if problems else read()
    except Rejected as error:
        problems = list(error.problems)
    steps.result("archive", problems)
    if archive is None:
        submission_admission.refuse(admin, request, problems)
    with admin.alone():  # before the pictures are stored: nothing removes those of a refused submission
        if isinstance(before := _check_pictures(admin, request, archive), Receipt):
            return before
    pixels = put_array(admin.folder.blobs(), archive.pixels)
    with admin.alone():  # meanwhile this team or another may have submitted something
        if isinstance(act := _check_pictures(admin, request, archive), Receipt):
            return act
        warnings = [*admin.contest.format.submission_warnings(admin.season, act), *admin.clock_warnings()]
        return contest_receipts.receive(admin, act.model_copy(update={"pixels": pixels, "warnings": warnings}))


def _check_pictures(
    admin: ContestAdmin, request: SubmissionRequest, archive: PictureArchive
) -> contest_events.SubmissionReceived | Receipt:
    """Returns the event of receiving pictures now, or the receipt of the same submission. Raises Rejected."""
    image = Image(archive.digest, "")
    act = submission_admission.received_event(admin, request, Side.ATTACK, image, None)
    if (before := submission_admission.earlier_receipt(admin, act)) is not None:
        return before
    if problems := submission_admission.request_problems(admin, request, None):
        submission_admission.refuse(admin, request, problems)
    return act.model_copy(update={"decoder": archive.decoder})
