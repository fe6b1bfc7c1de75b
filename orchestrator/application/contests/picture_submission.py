"""Submissions of pictures instead of a program (rule C2)."""

from dataclasses import replace
from pathlib import Path

from orchestrator.application.contests.administration import ContestAdmin, SubmissionRequest
from orchestrator.application.contests.admission_steps import UNWATCHED, StepLog
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain.submissions import Side
from orchestrator.errors import UsageError
from orchestrator.intake import picture_entries


def submit_pictures(admin: ContestAdmin, request: SubmissionRequest, path: Path, steps: StepLog = UNWATCHED) -> Receipt:
    """Admits the pictures in an archive and returns its signed receipt; see `ContestAdmin.submit_pictures`.

    Without a name in the request, the submission gets the file's name without its extension.

    Raises:
        UsageError: the request says that it is a defence.
        Rejected: with all reasons. The refusal is recorded, and counts as no attempt of the team.
    """
    if request.side is Side.DEFENCE:
        raise UsageError("pictures are what an attack made, and no defence; leave --side out")
    name = request.name or path.stem
    handed = replace(request, name=name, side=Side.ATTACK, is_pictures=True)
    handed = replace(handed, package_name=request.package_name or path.name)
    contest = admin.contest
    return admin.submit_pictures(handed, lambda: picture_entries.read_entry_pictures(path, contest, handed.task), steps)
