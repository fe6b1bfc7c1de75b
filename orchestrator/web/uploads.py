"""Uploads of files in parts, as in the protocol tus, so that a broken connection costs one part.

The bytes are in a file. The upload's row in the database says how many of them are certainly on disk; it is written
after the file. One process at a time writes to an upload: it holds a lock on the file, which the kernel releases if the
process is killed. When the last byte has come and the digest is the announced one, the file becomes an arrival, and the
time of that last byte counts. Nothing is charged before.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

from django.db.models import F, Sum

from orchestrator.application.contests import arrivals
from orchestrator.application.contests.closing_preview import UploadUnderWay
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.domain.season import Arrival
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem
from orchestrator.files import write_fault
from orchestrator.web.contest_site import ContestSite, web_settings
from orchestrator.web.models import Account, Upload
from orchestrator.web.upload_files import CREATING, uploads_folder

PART_BYTES = 16 * 1024 * 1024
"""The most bytes that one request may send."""
LIFETIME = timedelta(hours=24)
"""How long an upload is kept after its last part."""
OPEN_UPLOADS = 5
"""How many uploads a team may have open at once."""
QUOTA_FACTOR = 2
"""How large all open uploads of a team may be together, as a multiple of the largest allowed upload."""
RESERVED_BYTES = 2 * 1024**3
"""How many bytes have to stay free on the disk, for the ledger and for rounds."""
_PIECE_BYTES = 1024 * 1024
_KNOWN_DIGESTS = 1000


class Refusal(StrEnum):
    """Why an upload or a part of it is refused."""

    OFFSET = "offset-mismatch"
    BUSY = "upload-busy"
    TOO_LARGE = "too-large"
    TOO_MANY = "too-many-uploads"
    NO_SPACE = "no-space"
    DIGEST = "digest-mismatch"
    GONE = "upload-gone"


class UploadRefused(Exception):
    """An upload or a part of it is refused, for a reason other than the contest's rules."""

    def __init__(self, reason: Refusal, problem: Problem) -> None:
        super().__init__(str(problem))
        self.reason, self.problem = reason, problem


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Returns at most `size` bytes, none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an upload: its offset, which has to be the upload's, its size in bytes, and its content.

    `time` is when its last byte came. If the part completes the file, that time decides whether the contest is closed.
    """

    offset: int
    size: int
    content: Readable
    time: datetime


class _RunningDigests:
    """The running digests of uploads, so that no file is read again at its end. A lost one is computed again.

    Where several processes serve a contest, each has digests of its own and reads only what the others wrote since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[int, hashlib._Hash]] = OrderedDict()

    def get(self, upload: str, offset: int) -> "tuple[int, hashlib._Hash]":
        """Returns how many of an upload's first `offset` bytes were digested, and a copy of their digest."""
        with self._lock:
            size, digest = self._known.get(upload, (0, None))
            return (size, digest.copy()) if digest is not None and size <= offset else (0, hashlib.sha256())

    def put(self, upload: str, offset: int, digest: "hashlib._Hash") -> None:
        """Keeps a digest. If there are too many, drops that of the upload which was written to longest ago."""
        with self._lock:
            self._known[upload] = (offset, digest)
            self._known.move_to_end(upload)
            while len(self._known) > _KNOWN_DIGESTS:
                self._known.popitem(last=False)


_digests = _RunningDigests()


def request_of(upload: Upload) -> SubmissionRequest:
    """Returns what the client said of a file when its upload began."""
    side = Side(upload.side) if upload.side else None
    return SubmissionRequest(upload.team, upload.task, side=side, name=upload.name, file_name=upload.file_name)


def begin(site: ContestSite, account: Account, request: SubmissionRequest, size: int, digest: str) -> Upload | Arrival:
    """Returns a new upload, the open upload of the same file, or the arrival that the same file became.

    Raises:
        Rejected: the contest's rules do not allow it, for example because the contest is closed. Nothing is kept.
        UploadRefused: it is too large, the team has too many uploads, or the disk is too full.
    """
    largest, now = web_settings().file.largest_upload, site.clock()
    with site.administer_without_reports(account.person) as admin:
        known = arrivals.check_request(admin, request, digest)
    if known is not None:
        return known
    if size > largest:
        remedy = f"send at most {largest} bytes, or submit an image by its digest"
        raise UploadRefused(Refusal.TOO_LARGE, Problem("file", f"is {size} bytes", remedy))
    side = request.side.value if request.side else ""
    same = {
        "team": request.team,
        "task": request.task,
        "side": side,
        "name": request.name,
        "digest": digest,
        "size": size,
    }
    with _creating():
        _sweep_alone(now)
        waiting = Upload.objects.filter(team=request.team, arrival="", expires__gt=now)
        if (open_one := waiting.filter(**same).first()) is not None:
            return open_one
        taken = waiting.aggregate(total=Sum("size"))["total"] or 0
        if waiting.count() >= OPEN_UPLOADS or taken + size > QUOTA_FACTOR * largest:
            what = f"{request.team} has {waiting.count()} unfinished uploads of {taken} bytes together"
            raise UploadRefused(Refusal.TOO_MANY, Problem("team", what, "finish or cancel one, or wait for a day"))
        require_space(now, size)
        upload = Upload.objects.create(
            public_id=secrets.token_hex(16),
            account=account,
            file_name=request.file_name,
            expires=now + LIFETIME,
            **same,
        )
        os.close(os.open(_path(upload.public_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return upload


def find(public_id: str, now: datetime) -> Upload | None:
    """Returns the upload with an id, None if there is none or it has expired."""
    return Upload.objects.filter(public_id=public_id, expires__gt=now).first()


def uploads_under_way(now: datetime) -> list[UploadUnderWay]:
    """Returns the unfinished uploads of all teams that have not expired."""
    return [
        UploadUnderWay(each.offset, each.size, each.file_name, each.team, each.task)
        for each in Upload.objects.filter(arrival="", expires__gt=now).order_by("team", "pk")
    ]


def prepare(upload: Upload) -> None:
    """Computes the digest of an upload's bytes so far if it is not known, so that the last part need not wait for it.

    Does nothing while another request writes to the file. Raises FileNotFoundError if the file is gone.
    """
    if upload.arrival or _digests.get(upload.public_id, upload.offset)[0] == upload.offset:
        return
    with suppress(UploadRefused), _held_file(upload.public_id) as file:
        upload.refresh_from_db()
        _digests.put(upload.public_id, upload.offset, _digest_up_to(file, upload.public_id, upload.offset))


def write_part(site: ContestSite, account: Account, upload: Upload, part: Part) -> Upload:
    """Writes a part to the disk (with fsync) and returns the upload. After the last part the upload has an arrival.

    An empty part at the end of a complete file asks again which arrival the file became.

    Args:
        site: the contest.
        account: the sender's account.
        upload: the upload.
        part: the part.

    Raises:
        UploadRefused: the offset is not the upload's, another request is writing, the part is too large, or the digest
            of the complete file is not the announced one; in that last case the upload is removed.
        Rejected: the contest's rules do not allow it now; the upload stays until it expires.
        StoreFault: the file cannot be written.
    """
    try:
        with _held_file(upload.public_id) as file:
            upload.refresh_from_db()
            if upload.arrival and part.offset == upload.size:
                return upload
            _require_fitting(upload, part.offset, part.size)
            digest = _digest_up_to(file, upload.public_id, part.offset)
            written = _write(file, upload, part.content, digest)
            Upload.objects.filter(pk=upload.pk).update(offset=part.offset + written, expires=site.clock() + LIFETIME)
            upload.offset = part.offset + written
            _digests.put(upload.public_id, upload.offset, digest)
            if upload.offset == upload.size:
                _finish(site, account, upload, digest.hexdigest(), part.time)
            return upload
    except FileNotFoundError:
        return _find_moved(site, upload)


def remove(upload: Upload) -> None:
    """Removes an upload with its file. Raises UploadRefused if another request is writing to it."""
    try:
        with _held_file(upload.public_id):
            _remove(upload)
    except FileNotFoundError:
        upload.delete()


def sweep(now: datetime) -> None:
    """Removes expired uploads, and files whose rows are gone. Raises OSError if a file cannot be removed."""
    with _creating():
        _sweep_alone(now)


def _require_fitting(upload: Upload, offset: int, size: int) -> None:
    if offset != upload.offset:
        remedy = "ask for the offset with HEAD, and go on there"
        raise UploadRefused(Refusal.OFFSET, Problem("Upload-Offset", f"is {offset}, not {upload.offset}", remedy))
    if size > PART_BYTES:
        remedy = f"send at most {PART_BYTES} bytes a request"
        raise UploadRefused(Refusal.TOO_LARGE, Problem("Content-Length", f"is {size}", remedy))
    if offset + size > upload.size:
        remedy = "send no more than was promised"
        raise UploadRefused(Refusal.TOO_LARGE, Problem("file", f"has more than its {upload.size} bytes", remedy))


def _write(file: BinaryIO, upload: Upload, part: Readable, digest: "hashlib._Hash") -> int:
    """Writes a part at the upload's offset and returns its size in bytes. Raises UploadRefused, StoreFault."""
    written = 0
    try:
        file.seek(upload.offset)
        while piece := part.read(_PIECE_BYTES):
            if upload.offset + written + len(piece) > upload.size:
                raise UploadRefused(Refusal.TOO_LARGE, Problem("file", f"has more than its {upload.size} bytes"))
            file.write(piece)
            digest.update(piece)
            written += len(piece)
        file.flush()
        file.truncate()  # removes what a killed process wrote behind it
        os.fsync(file.fileno())
    except OSError as error:
        raise write_fault(_path(upload.public_id), error) from error
    return written


def _finish(site: ContestSite, account: Account, upload: Upload, digest: str, now: datetime) -> None:
    """Makes an arrival of a complete file. `now`, when its last byte came, decides whether the contest is closed.

    Raises UploadRefused if the digest is not the announced one, and Rejected.
    """
    if f"sha256:{digest}" != upload.digest:
        _remove(upload)
        problem = Problem("sha256", f"of what came is {digest}, not the promised one", "send the file once more")
        raise UploadRefused(Refusal.DIGEST, problem)
    path = _path(upload.public_id)
    with site.administer_without_reports(account.person) as admin:
        arrival = arrivals.record_arrival(admin, request_of(upload), path, digest=upload.digest, now=now)
    path.unlink(missing_ok=True)  # it is still there if the same file had arrived before
    _note_arrival(upload, arrival)


def _find_moved(site: ContestSite, upload: Upload) -> Upload:
    """Returns an upload whose file became an arrival just before its process was killed.

    Raises UploadRefused, and deletes the upload, if its file became none.
    """
    upload.refresh_from_db()
    if upload.arrival:
        return upload
    for arrival in reversed(site.season().arrivals.values() if upload.offset == upload.size else ()):
        if (arrival.team, arrival.task, arrival.digest) == (upload.team, upload.task, upload.digest):
            _note_arrival(upload, arrival)
            return upload
    upload.delete()
    raise UploadRefused(Refusal.GONE, Problem("upload", "its bytes are gone", "begin it again"))


def _note_arrival(upload: Upload, arrival: Arrival) -> None:
    Upload.objects.filter(pk=upload.pk).update(arrival=arrival.id, offset=F("size"))
    upload.arrival, upload.offset = arrival.id, upload.size


def _folder() -> Path:
    return uploads_folder(web_settings().contest)


def _path(public_id: str) -> Path:
    return _folder() / public_id


@contextmanager
def _held_file(public_id: str) -> Iterator[BinaryIO]:
    """Opens an upload's file and locks it. Raises UploadRefused if another request has the lock, FileNotFoundError."""
    with _path(public_id).open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = Problem("upload", "another request writes to it", "ask for the offset with HEAD in a second")
            raise UploadRefused(Refusal.BUSY, problem) from None
        if not os.fstat(file.fileno()).st_nlink or not _path(public_id).exists():
            raise FileNotFoundError(public_id)
        yield file


@contextmanager
def _creating() -> Iterator[None]:
    """Holds the lock under which one process at a time counts uploads, begins one or sweeps."""
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (_folder() / CREATING).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest_up_to(file: BinaryIO, public_id: str, offset: int) -> "hashlib._Hash":
    """Returns the digest of the first `offset` bytes of an upload; reads only those that were not digested before."""
    start, digest = _digests.get(public_id, offset)
    file.seek(start)
    left = offset - start
    while left and (piece := file.read(min(left, _PIECE_BYTES))):
        digest.update(piece)
        left -= len(piece)
    return digest


def require_space(now: datetime, size: int) -> None:
    """Raises UploadRefused if `size` more bytes, with the rest of all open uploads, would make the disk too full."""
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    promised = Upload.objects.filter(arrival="", expires__gt=now).aggregate(left=Sum(F("size") - F("offset")))["left"]
    if shutil.disk_usage(_folder()).free - (promised or 0) - size < RESERVED_BYTES:
        problem = Problem("disk", "has no space for it at the moment", "come back later, and tell the organizers")
        raise UploadRefused(Refusal.NO_SPACE, problem)


def _sweep_alone(now: datetime) -> None:
    """Removes expired uploads, and files whose rows are gone. The caller holds the lock of `_creating`."""
    for expired in Upload.objects.filter(expires__lte=now):
        with suppress(UploadRefused):  # it is being written to
            remove(expired)
    known = set(Upload.objects.values_list("public_id", flat=True))
    for path in _folder().iterdir():
        if path.name not in known and path.name != CREATING:
            path.unlink(missing_ok=True)


def _remove(upload: Upload) -> None:
    upload.delete()
    _path(upload.public_id).unlink(missing_ok=True)
