"""Pictures that teams submit to an unrestricted contest: decoded once, kept as pixels, with receipts (U4, U5)."""

import secrets
from datetime import datetime

from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.grading.graded_pictures import encode_png
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain.ids import digest
from orchestrator.domain.submissions import PictureFormat, Side
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.unrestricted.commands import Result, Upload, receive_picture
from orchestrator.formats.unrestricted.events import PictureAppealed
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.week_calendar import local_day
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.stores.base import array_digest, format_time, get_array, put_array
from orchestrator.picture_files.decode_apart import decode_picture_apart
from orchestrator.picture_files.picture import PictureRefused

MAX_PICTURE_BYTES = 1024**2
"""The most bytes of a picture's file."""
_ID_BYTES = 8


def task_shape(contest: Contest) -> tuple[int, int, int]:
    """Returns the channels, height and width of the task's pictures. Raises Rejected if the dataset cannot be read."""
    return contest.make_task(contest.load_samples()).shape


def submit_picture(
    contest: UnrestrictedContest, shape: tuple[int, int, int], actor: str, team: str, data: bytes, now: datetime
) -> str:
    """Receives a picture and returns its id. For a file that the team submitted before, returns that picture's id.

    Args:
        contest: the contest.
        shape: the channels, height and width that the picture must have.
        actor: the person who submits it.
        team: the team for which it is submitted.
        data: the PNG file.
        now: the time at which its last byte arrived.

    Raises:
        Rejected: the file is no such picture, or the team may submit no picture now (U4).
    """
    if len(data) > MAX_PICTURE_BYTES:
        remedy = f"submit at most {MAX_PICTURE_BYTES} bytes"
        raise Rejected("picture", [Problem("picture", f"a file of {len(data)} bytes", remedy)])
    try:
        pixels = decode_picture_apart(data, {PictureFormat.PNG}, shape)
    except PictureRefused as error:
        raise Rejected("picture", [Problem("picture", str(error), error.remedy)]) from None
    file_digest = digest(data)
    upload = Upload(secrets.token_hex(_ID_BYTES), team, file_digest, array_digest(pixels), *shape[1:])

    def command(state: State, at: datetime) -> Result:
        found = receive_picture(state, at, actor, upload)
        if isinstance(found, tuple) and found:
            put_array(contest.folder.blobs(), pixels)
        return found

    contest.act(command, now)
    return contest.read(lambda state: state.receipts[team, file_digest])


def appeal_against_ruling(
    contest: UnrestrictedContest, actor: str, team: str, picture: str, text: str, now: datetime
) -> str:
    """Records a team's appeal against the ruling on a picture that concerns it, and returns the appeal's id (U8).

    Raises Rejected if the team may not appeal, and UsageError if the text is invalid.
    """
    appeal = secrets.token_hex(_ID_BYTES)
    words = {"appeal": appeal, "picture": picture, "team": team, "text": text}
    contest.propose(validated(PictureAppealed, actor=actor, **words), now)
    return appeal


def picture_png(contest: UnrestrictedContest, picture: str) -> bytes:
    """Returns the pixels of a picture, encoded as a new PNG. Raises KeyError if unknown, StoreFault if lost."""
    pixels = contest.read(lambda state: state.pictures[picture].digest)
    return encode_png(get_array(contest.folder.blobs(), pixels))


def picture_receipt(contest: UnrestrictedContest, name: str, picture: str) -> Receipt:
    """Returns the signed receipt of a picture of the contest `name`. Raises KeyError if there is no such picture."""
    entry = contest.entry_of(picture)
    if entry is None:
        raise KeyError(picture)

    def said(state: State) -> dict[str, object]:
        found = state.pictures[picture]
        file_digest = next(file for (_, file), known in state.receipts.items() if known == picture)
        day = local_day(found.received, state.zone)
        same_day = (
            each for each in state.pictures.values() if each.team == found.team and each.receipt <= found.receipt
        )
        attempt = sum(local_day(each.received, state.zone) == day for each in same_day)
        return {
            "team": found.team,
            "digest": file_digest,
            "received": format_time(found.received),
            "attempt": attempt,
            "attempts_left": max(0, state.rules.uploads_per_day - attempt),
        }

    return Receipt.create_signed(
        contest.folder.key(),
        contest=name,
        submission=picture,
        task="",
        side=Side.ATTACK.value,
        entry=entry[0],
        head=entry[1],
        warnings=(),
        **contest.read(said),
    )
