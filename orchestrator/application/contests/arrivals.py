"""Submissions that arrive through a site: recorded at once with their time, and admitted later by a worker."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from orchestrator.application.contests import (
    admission_steps,
    package_submission,
    picture_submission,
    submission_admission,
)
from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.application.contests.admission_steps import AdmissionStep, StepLog
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.domain.season import Arrival
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.files import write_fault
from orchestrator.ledger.round_folder import lock_folder
from orchestrator.ledger.stores.base import format_time
from orchestrator.sandboxes.base import Backend

ARRIVALS = "arrivals"
"""The folder in a contest's folder that holds one folder for each arrival."""
_PACKAGE = "package"
_MAGIC = ((0, b"PK\x03\x04", ".zip"), (0, b"\x1f\x8b", ".tar.gz"), (257, b"ustar", ".tar"))
_HEAD_BYTES = 512


def record_arrival(
    admin: ContestAdmin, request: SubmissionRequest, path: Path | None, *, digest: str = "", now: datetime | None = None
) -> Arrival:
    """Records the arrival of a complete file, or of an image by digest, and returns the arrival.

    Moves the file into the contest's folder. If the team's same submission already waits or plays, returns that arrival
    instead. The file then stays where it is, and it also stays if an error is raised.

    Args:
        admin: the contest; its actor is the person who submits.
        request: the submission as the team describes it, with the file's name, or the image as `NAME@sha256:...`.
        path: the complete file, on the contest folder's file system, which no other process may use from now on; None
            for an image.
        digest: the file's `sha256:...` if the caller computed it while the bytes came; else the file is read again.
        now: when the last byte arrived, which is the time that counts; None: at this moment.

    Raises:
        Rejected: with all problems; nothing is recorded.
        UsageError: neither a file nor an image, or both.
        StoreFault: the file cannot be kept.
    """
    if (path is None) == (not request.image):
        raise UsageError("submit either a file or an image by its digest")
    now = now or admin.now()  # before reading the file and waiting for the write lock, which both take time
    request = replace(request, file_name=_safe_file_name(request.file_name) if path is not None else "")
    size, suffix = 0, ""
    if path is None:
        digest = request.image.partition("@")[2]
    else:
        size, suffix = _settle_file(path), _suffix(path)
        digest = digest or _file_digest(path)
    with admin.alone():
        if (known := _known_arrival(admin, request, digest)) is not None:
            return known
        _require_acceptable(admin, request, digest, now)
        arrival = secrets.token_hex(8)
        words = {name: getattr(request, name) for name in ("team", "task", "side", "name", "file_name", "image")}
        words |= {"size": size, "digest": digest, "last_byte": format_time(admin.counted_time(now))}
        event = validated(contest_events.SubmissionArrived, actor=admin.actor, arrival=arrival, **words)
        _keep(arrival_folder(admin.folder.path, arrival), path, suffix)
        admin.append_event(event, at=now)
    if path is not None:
        with suppress(OSError):  # the caller clears its own folder
            path.unlink(missing_ok=True)
    return admin.season.arrivals[arrival]


def check_request(admin: ContestAdmin, request: SubmissionRequest, digest: str) -> Arrival | None:
    """Checks a submission before its bytes arrive: returns the team's same arrival, None if there is none yet.

    Raises Rejected with all problems. Records nothing.
    """
    known = _known_arrival(admin, request, digest)
    if known is None:
        _require_acceptable(admin, request, digest, admin.now())
    return known


def arrival_folder(contest: Path, arrival: str) -> Path:
    """Returns the folder of an arrival."""
    return contest / ARRIVALS / arrival


def read_steps(contest: Path, arrival: str) -> list[AdmissionStep]:
    """Returns the steps so far of the latest try to admit an arrival, none before the first try."""
    return admission_steps.read_steps_file(arrival_folder(contest, arrival) / admission_steps.STEPS_FILE)


@contextmanager
def hold_arrival(admin: ContestAdmin, arrival: str) -> Iterator[None]:
    """Locks an arrival for this process and applies new ledger entries. The kernel frees the lock of a killed process.

    Raises:
        UsageError: there is no such arrival.
        Busy: another worker admits it.
    """
    admin.refresh()
    if arrival not in admin.season.arrivals:
        raise UsageError(f"no arrival {printable(arrival, 80)!r} in this contest")
    folder = arrival_folder(admin.folder.path, arrival)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_fault(folder, error) from error
    with lock_folder(folder, f"another worker admits the arrival {arrival}; wait for it or end it"):
        admin.refresh()
        yield


def admit_arrival(admin: ContestAdmin, arrival: str, backend: Backend) -> Arrival:
    """Admits an arrival that `hold_arrival` has locked; returns it as received, or as refused with its problems.

    It is judged by the time of its arrival. An arrival that already has an outcome is returned unchanged.

    Raises:
        InfrastructureFault: a fault of ours; the arrival stays open, to be tried again.
        Rejected: the contest itself cannot be read; the arrival stays open.
    """
    known = admin.season.arrivals[arrival]
    folder = arrival_folder(admin.folder.path, arrival)
    if not known.outcome:
        with admission_steps.open_step_log(folder, lambda: format_time(admin.now())) as steps:
            _admit(admin, known, folder, backend, steps)
            known = admin.season.arrivals[arrival]
            _tell_outcome(known, steps)
    _remove_package(folder)
    return known


def sweep(admin: ContestAdmin) -> None:
    """Removes what killed processes left: folders without an event, and packages of arrivals that have an outcome."""
    with admin.alone():  # `record_arrival` moves the file and appends the event under the same lock
        for folder in sorted((admin.folder.path / ARRIVALS).glob("*")):
            known = admin.season.arrivals.get(folder.name)
            if known is None:
                shutil.rmtree(folder, ignore_errors=True)
            elif known.outcome:
                _remove_package(folder)


def _admit(admin: ContestAdmin, known: Arrival, folder: Path, backend: Backend, steps: StepLog) -> None:
    """Admits an arrival, which has an outcome afterwards. Raises like `admit_arrival`."""
    request = SubmissionRequest(
        known.team,
        known.task,
        image=known.image,
        name=known.name,
        side=known.side,
        file_name=known.file_name,
        arrival=known.id,
    )
    try:
        receipt = _submit(admin, request, known, folder, backend, steps)
    except Rejected:
        admin.refresh()
        if not admin.season.arrivals[known.id].outcome:
            raise
        return
    with admin.alone():
        if not admin.season.arrivals[known.id].outcome:  # the receipt is that of an earlier, same submission
            admin.append_event(
                contest_events.ArrivalMatched(actor=known.actor, arrival=known.id, submission=receipt.submission)
            )


def _submit(
    admin: ContestAdmin, request: SubmissionRequest, known: Arrival, folder: Path, backend: Backend, steps: StepLog
) -> Receipt:
    if known.image:
        return submission_admission.submit(admin, request, backend, steps)
    package = next(iter(sorted(folder.glob(f"{_PACKAGE}*"))), None)
    if package is None:
        raise StoreFault(f"the file of the arrival {known.id} is gone from {folder}; put it back from a copy")
    if admin.contest.format.picture_formats():
        name = request.name or _picture_name(known.file_name)
        return picture_submission.submit_pictures(admin, replace(request, name=name), package, steps)
    return package_submission.submit_package(admin, request, package, backend, steps=steps)


def _tell_outcome(known: Arrival, steps: StepLog) -> None:
    if known.outcome == "received":
        steps.add("outcome", True, f"received as {known.submission}")
    for problem in known.problems if known.outcome == "refused" else ():
        what, _, remedy = problem.partition("; ")
        steps.add("outcome", False, problem=what, remedy=remedy)


def _known_arrival(admin: ContestAdmin, request: SubmissionRequest, digest: str) -> Arrival | None:
    """Returns the team's same arrival, if it waits or became a submission that is active."""
    for known in admin.season.arrivals.values():
        same = (known.team, known.task, known.side, known.name, known.digest, known.image) == (
            *(request.team, request.task, request.side, request.name),
            *(digest, request.image),
        )
        entry = admin.season.entries.get(known.submission)
        if same and (not known.outcome or (entry is not None and entry.is_active)):
            return known
    return None


def _require_acceptable(admin: ContestAdmin, request: SubmissionRequest, digest: str, now: datetime) -> None:
    """Raises Rejected with all problems of what is submitted that show before its file is read."""
    if problems := _problems(admin, request, digest, now):
        raise Rejected(f"submission {request.name or request.file_name or request.image}", problems)


def _problems(admin: ContestAdmin, request: SubmissionRequest, digest: str, now: datetime) -> list[Problem]:
    """Returns all problems of what is submitted that show before its file is read."""
    problems, takes_pictures = [], bool(admin.contest.format.picture_formats())
    request = replace(request, is_pictures=takes_pictures, arrived_at=now)
    if request.image and not (request.name and digest.startswith("sha256:")):
        problems.append(Problem("image", "has no name or no digest", "give its name, and NAME@sha256:... of it"))
    if takes_pictures and request.image:
        problems.append(Problem("image", "this contest takes pictures", "submit an archive of pictures"))
    if takes_pictures and request.side is Side.DEFENCE:
        problems.append(Problem("side", "pictures are what an attack made", "leave the side out"))
    if takes_pictures:
        request = replace(request, side=Side.ATTACK, name=request.name or _picture_name(request.file_name))
    against = submission_admission.request_problems(admin, request, None)
    # A missing side is no problem for a file: its manifest, which is not read yet, says the side.
    problems += [each for each in against if request.side or request.image or each.place != "side" or takes_pictures]
    if request.team not in admin.season.teams and all(each.place != "team" for each in problems):
        problems.append(Problem("team", f"there is no team {request.team!r}", "make it, or join it, first"))
    return problems


def _picture_name(file_name: str) -> str:
    """Returns the name of a submission of pictures that has none: the file's name without its extension."""
    return PurePosixPath(file_name).stem


def _safe_file_name(name: str) -> str:
    """Returns the last part of a team's file name, at most 200 printable characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in last if character.isprintable())[:200]


def _suffix(path: Path) -> str:
    """Returns the extension that fits a file's first bytes, for people who look into the folder. Raises StoreFault."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise write_fault(path, error) from error
    return next((suffix for offset, magic, suffix in _MAGIC if head[offset:].startswith(magic)), "")


def _settle_file(path: Path) -> int:
    """Flushes a file to the disk and returns its size in bytes. Raises StoreFault."""
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise write_fault(path, error) from error


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise write_fault(path, error) from error


def _keep(folder: Path, path: Path | None, suffix: str) -> None:
    """Creates an arrival's folder with its file and flushes both to the disk. Raises StoreFault.

    The file is linked into the folder, so that it also stays where it was in case the event cannot be appended.
    """
    try:
        folder.mkdir(parents=True)
        if path is not None:
            _link_or_move(path, folder / f"{_PACKAGE}{suffix}")
        for each in (folder, folder.parent):
            handle = os.open(each, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise write_fault(folder, error) from error


def _link_or_move(path: Path, kept: Path) -> None:
    try:
        kept.hardlink_to(path)
    except OSError:  # a file system without hard links
        path.replace(kept)


def _remove_package(folder: Path) -> None:
    for package in folder.glob(f"{_PACKAGE}*"):
        with suppress(OSError):  # the next sweep tries again
            package.unlink()
