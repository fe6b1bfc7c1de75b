"""The signed receipts of a contest's submissions: written when one is received, and again where a file is missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.bundles.receipts import Receipt, encode_receipt
from orchestrator.domain import contest_events
from orchestrator.files import write_whole
from orchestrator.ledger.contest_folder import ContestFolder


@dataclass(frozen=True, slots=True)
class ReceivedSubmission:
    """The ledger's entry of a received submission: its event, time, number and hash."""

    event: contest_events.SubmissionReceived
    time: str
    seq: int
    hash: str


def receive(admin: ContestAdmin, act: contest_events.SubmissionReceived) -> Receipt:
    """Records that a submission was received, and returns its receipt. Call it inside `alone`."""
    time = admin.append_event(act)
    received = ReceivedSubmission(act, time, admin.entry_count, admin.head)
    admin.recognize_organizers()
    return write_receipt(admin, received)


def received_submissions(admin: ContestAdmin) -> Iterator[ReceivedSubmission]:
    """Yields all received submissions, in the order of the ledger."""
    for entry in admin.entries():
        if isinstance(entry.event, contest_events.SubmissionReceived):
            yield ReceivedSubmission(entry.event, entry.time, entry.seq, entry.hash)


def write_receipt(admin: ContestAdmin, received: ReceivedSubmission) -> Receipt:
    """Writes a submission's receipt and returns it. Raises StoreFault."""
    act = received.event
    receipt = Receipt.create_signed(
        admin.signing_key(),
        contest=admin.contest.file.contest,
        submission=act.id,
        team=act.team,
        task=act.task,
        side=act.side.value,
        digest=act.digest,
        received=received.time,
        entry=received.seq,
        head=received.hash,
        attempt=act.attempt,
        attempts_left=act.attempts_left,
        warnings=act.warnings,
    )
    write_whole(receipt_path(admin.folder, act.id), encode_receipt(receipt.document()))
    return receipt


def restore_receipts(admin: ContestAdmin) -> None:
    """Writes missing receipts again with the same contents, after a killed command or a loss.

    Raises:
        StoreFault: the key is not the contest's, or a receipt cannot be written.
    """
    missing = {each for each in admin.season.entries if not receipt_path(admin.folder, each).exists()}
    for received in received_submissions(admin) if missing else ():
        if received.event.id in missing:
            write_receipt(admin, received)


def receipt_path(folder: ContestFolder, submission: str) -> Path:
    """Returns the path of a submission's receipt."""
    return folder.path / "receipts" / f"{submission}.json"
