"""Plays a finding of a round again, from the round's ledger and with the image that played; writes nothing there."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator import composition
from orchestrator.application.findings import played_image
from orchestrator.application.rounds import round_record
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.domain import events
from orchestrator.domain.findings import Finding
from orchestrator.domain.submissions import Submission
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, InfrastructureFault, Rejected, StoreFault, UsageError
from orchestrator.execution.reproduction import FindingReproducer, Reproduction
from orchestrator.execution.round_context import RoundContext
from orchestrator.gpus import list_gpus
from orchestrator.intake import manifest
from orchestrator.intake.contest_file import ContestFile
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import SECRET_BYTES, RoundFolder
from orchestrator.ledger.season_fold import format_of_round
from orchestrator.sandboxes.base import Backend, Image, ImageSource

DEMO_FOLDER = Path("demo")
"""The folder of the round that `sparring demo` plays."""


@dataclass(frozen=True)
class ReproducedFinding:
    """A finding and its reproduction, with the class names and the reproduction's backend for readers."""

    finding: Finding
    submission: Submission
    reproduction: Reproduction
    classes: tuple[str, ...]
    backend: str


def find_round_folder(given: Path | None) -> Path:
    """Returns a round's folder: the given one, else the current folder, else the demo's. Raises UsageError."""
    if given is not None:
        RoundFolder(given).require()
        return given
    for path in (Path(), DEMO_FOLDER):
        if RoundFolder(path).exists:
            return path
    raise UsageError(f"neither this folder nor {DEMO_FOLDER} holds a round; give the round's folder as --dir")


def reproduce(
    out: Path, finding_id: str, *, backend: str | None, allow_unisolated: bool, recorded_seeds: bool = False
) -> ReproducedFinding:
    """Plays a finding's sessions again, in fresh sandboxes with the image that played.

    Args:
        out: the round's folder.
        finding_id: the finding's id, or the beginning of it.
        backend: the backend; None: the round's own, or docker for a round that was played on a cluster.
        allow_unisolated: whether strangers' submissions may run on the process backend.
        recorded_seeds: whether a defence's sandboxes get the recorded seeds, instead of fresh ones.

    Raises:
        UsageError: there is no such finding, or its image no longer exists.
        InfrastructureFault: something of ours failed.
    """
    record, _ = round_record.read_round(out)
    finding = find_finding(record.round.findings, finding_id, out)
    opening = _require_opened(record, out)
    image_backend = "docker" if opening.backend == composition.KUBERNETES else opening.backend
    if backend not in (None, image_backend, opening.backend):
        raise UsageError(
            f"the round in {out} was played on {opening.backend}, and {backend} cannot start the same images; "
            f"leave --backend out, or say {image_backend}"
        )
    submission = record.round.roster[finding.submission]
    with tempfile.TemporaryDirectory(prefix="sparring-replay-") as workspace:
        local_backend = composition.make_backend(image_backend, Path(workspace), allow_unisolated=allow_unisolated)
        file = _contest_file(opening, out)
        local_backend.require_available(file.runtime, file.limits.gpus)
        if opening.backend == composition.KUBERNETES:
            image = played_image.find_played_image(local_backend, submission, finding.image, opening)
        else:
            image = _find_image(local_backend, submission, finding.image, out)
        with _round_context(record, file, local_backend, {submission.id: image}, out) as context:
            device = _device(context.limits)
            reproduction = FindingReproducer(
                context, record, finding, device, recorded_seeds=recorded_seeds
            ).reproduce()
    return ReproducedFinding(finding, submission, reproduction, tuple(opening.task.classes), image_backend)


def find_finding(findings: list[Finding], finding_id: str, out: Path) -> Finding:
    """Returns the finding with this id, or the only one whose id begins with it. Raises UsageError, naming others."""
    matches = {finding.id: finding for finding in findings if finding.id.startswith(finding_id)}
    if finding_id in matches:
        return matches[finding_id]
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        raise UsageError(
            f"{len(matches)} findings begin with {printable(finding_id)}: {', '.join(matches)}; give one of them"
        )
    if not findings:
        raise UsageError(f"the round in {out} has no findings")
    known = ", ".join(f"{f.id} against {printable(f.submission)}" for f in findings)
    raise UsageError(f"the round in {out} has no finding {printable(finding_id)}; it has {known}")


def _require_opened(record: RoundView, out: Path) -> events.RoundOpened:
    if record.round.opening is None:
        raise UsageError(f"the round in {out} was never opened, so nothing was found in it")
    return record.round.opening


def _contest_file(opening: events.RoundOpened, out: Path) -> ContestFile:
    try:
        return ContestFile.model_validate(opening.contest)
    except ValidationError as error:
        raise StoreFault(
            f"the contest of the round in {out} was opened by sparring {opening.software} and cannot be read by this "
            f"version ({error.error_count()} keys differ); use that version"
        ) from error


def _find_image(backend: Backend, submission: Submission, digest: str, out: Path) -> Image:
    """Returns exactly the image that played, never another one of the same name. Raises UsageError with the remedy."""
    candidates = [
        folder / "images" / digest.removeprefix("sha256:") for folder in (out, RoundFolder(out).contest_path) if folder
    ]
    snapshot = next((path for path in candidates if path.is_dir()), None)
    try:
        if snapshot is not None:
            command = tuple(manifest.read_manifest(snapshot).command)
            image = backend.admit(ImageSource(folder=snapshot, command=command, trusted=submission.baseline))
        elif backend.name == "process":
            raise UsageError(
                f"the copy of {submission.id} that played is gone ({candidates[0]}); bring it back from a backup, or "
                "run the round again: another copy proves nothing about this one"
            )
        else:
            image = backend.admit(ImageSource(image=digest, trusted=submission.baseline))
    except Rejected as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        remedy = _remedy(backend, submission, isolated=snapshot is None)
        raise UsageError(f"the image of {submission.id} that played, {digest}, cannot: {problems}. {remedy}") from error
    if image.digest != digest:
        raise UsageError(
            f"what is there of {submission.id} is {image.digest}, and what played was {digest}; bring that back: "
            "another image proves nothing about it"
        )
    return image


def _remedy(backend: Backend, submission: Submission, *, isolated: bool) -> str:
    if not isolated:
        return "Where you trust its authors, add --allow-unisolated"
    now = ""
    with suppress(Rejected):
        other = backend.admit(ImageSource(image=submission.image))
        now = f"{submission.image} is {other.digest} now, another image. "
    return f"{now}Bring the one that played back (`docker load`): no other can show what it did"


@contextmanager
def _round_context(
    record: RoundView, file: ContestFile, backend: Backend, images: dict[str, Image], out: Path
) -> Iterator[RoundContext]:
    """Makes the round's context again, with a new secret; on exit, ends everything that was started in it."""
    opening = _require_opened(record, out)
    context = assemble_context(
        file,
        format_of_round(opening),
        round=opening.round,
        task=opening.task.task(),
        samples=record.samples,
        secret=secrets.token_bytes(SECRET_BYTES),
        roster=record.round.roster,
        images=images,
        backend=backend,
        blobs=RoundFolder(out).blobs(),
    )
    try:
        yield context
    finally:
        with suppress(InfrastructureFault):  # the next sweep of any round ends what is left
            backend.clean_up(ended_run=context.run)


def _device(limits: Limits) -> str | None:
    if not limits.gpus:
        return None
    found = list_gpus()
    if not found:
        raise BackendUnavailable("the task asks for a GPU and this machine has none; play it again on one that has")
    return found[0].uuid
