"""A finding of a round played again: found in its ledger, with the image that played. Nothing is written there."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pydantic import ValidationError

from orchestrator import composition, plugins
from orchestrator.application.findings import played_image
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.round_config import round_config
from orchestrator.domain import events
from orchestrator.domain.findings import Finding
from orchestrator.domain.submissions import Submission
from orchestrator.domain.tasks import Budget, Limits, Norm, Task
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, InfrastructureFault, Rejected, StoreFault, UsageError
from orchestrator.execution.reproduction import FindingReproducer, Reproduction
from orchestrator.execution.round_context import RoundContext
from orchestrator.gpus import list_gpus
from orchestrator.intake import manifest
from orchestrator.intake.contest_file import ContestFile
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import SECRET_BYTES, RoundFolder
from orchestrator.sandboxes.base import Backend, Image, ImageSource

DEMO_FOLDER = Path("demo")
"""Where `sparring demo` puts its round."""


@dataclass(frozen=True)
class ReproducedFinding:
    """A finding, what was played again for it, and what its readers need: class names, and where it ran now."""

    finding: Finding
    submission: Submission
    encore: Reproduction
    classes: tuple[str, ...]
    backend: str


def find_round_folder(given: Path | None) -> Path:
    """Returns the round's folder: what is given, else the current folder, else the demo's. Raises UsageError."""
    if given is not None:
        RoundFolder(given).require()
        return given
    for path in (Path(), DEMO_FOLDER):
        if RoundFolder(path).exists:
            return path
    raise UsageError(f"neither this folder nor {DEMO_FOLDER} holds a round; give the round's folder as --dir")


def reproduce(
    out: Path, wanted: str, *, backend: str | None, allow_unisolated: bool, recorded_seeds: bool = False
) -> ReproducedFinding:
    """Plays a finding's sessions again, in fresh sandboxes with the image that played.

    Args:
        out: the round's folder.
        wanted: the finding's id, or the beginning of it.
        backend: None for the round's own, which is docker for one that was played on a cluster.
        allow_unisolated: whether strangers' submissions may run on the process backend.
        recorded_seeds: whether a defence's sandboxes are told the seeds on record, instead of fresh ones.

    Raises:
        UsageError: there is no such finding, or the image is not there any more.
        InfrastructureFault: something of ours failed.
    """
    record, _ = play_rounds.read_round(out)
    finding = find_finding(record.round.findings, wanted, out)
    opened = _require_opened(record, out)
    own = "docker" if opened.backend == composition.KUBERNETES else opened.backend
    if backend not in (None, own, opened.backend):
        raise UsageError(
            f"the round in {out} was played on {opened.backend}, and {backend} cannot start the same images; "
            f"leave --backend out, or say {own}"
        )
    submission = record.round.roster[finding.submission]
    with tempfile.TemporaryDirectory(prefix="sparring-replay-") as workspace:
        here = composition.make_backend(own, Path(workspace), allow_unisolated=allow_unisolated)
        file = _contest_file(opened, out)
        here.check(file.runtime)
        if opened.backend == composition.KUBERNETES:
            image = played_image.find_played_image(here, submission, finding.image, opened)
        else:
            image = _find_image(here, submission, finding.image, out)
        with _round_context(record, file, here, {submission.id: image}, out) as setting:
            device = _device(setting.limits)
            encore = FindingReproducer(setting, record, finding, device, recorded_seeds=recorded_seeds).play()
    return ReproducedFinding(finding, submission, encore, tuple(opened.task.classes), own)


def find_finding(findings: list[Finding], wanted: str, out: Path) -> Finding:
    """Returns the finding of this id, or the only one whose id begins so. Raises UsageError, naming what there is."""
    found = {finding.id: finding for finding in findings if finding.id.startswith(wanted)}
    if wanted in found:
        return found[wanted]
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UsageError(f"{len(found)} findings begin with {printable(wanted)}: {', '.join(found)}; give one of them")
    there = ", ".join(f"{f.id} against {printable(f.submission)}" for f in findings) or "none"
    raise UsageError(f"no finding {printable(wanted)} in {out}; there is: {there}")


def _require_opened(record: RoundView, out: Path) -> events.RoundOpened:
    if record.round.opened is None:
        raise UsageError(f"the round in {out} was never opened, so nothing was found in it")
    return record.round.opened


def _contest_file(opened: events.RoundOpened, out: Path) -> ContestFile:
    try:
        return ContestFile.model_validate(opened.contest)
    except ValidationError as error:
        raise StoreFault(
            f"the contest of the round in {out} was opened by sparring {opened.software} and cannot be read by this "
            f"version ({error.error_count()} keys differ); use that version"
        ) from error


def _find_image(backend: Backend, submission: Submission, digest: str, out: Path) -> Image:
    """Returns what played, and nothing that is merely called the same. Raises UsageError with what to do."""
    kept = [where / "images" / digest.removeprefix("sha256:") for where in (out, RoundFolder(out).contest) if where]
    snapshot = next((path for path in kept if path.is_dir()), None)
    try:
        if snapshot is not None:
            command = tuple(manifest.read_manifest(snapshot).command)
            found = backend.admit(ImageSource(folder=snapshot, command=command, trusted=submission.baseline))
        elif backend.name == "process":
            raise UsageError(
                f"the copy of {submission.id} that played is gone ({kept[0]}); bring it back from a backup, or run "
                "the round again: another copy proves nothing about this one"
            )
        else:
            found = backend.admit(ImageSource(image=digest, trusted=submission.baseline))
    except Rejected as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        remedy = _remedy(backend, submission, isolated=snapshot is None)
        raise UsageError(f"the image of {submission.id} that played, {digest}, cannot: {problems}. {remedy}") from error
    if found.digest != digest:
        raise UsageError(
            f"what is there of {submission.id} is {found.digest}, and what played was {digest}; bring that back: "
            "another image proves nothing about it"
        )
    return found


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
    """Gives the setting of the round once more, with a secret of its own; at the end nothing of it is left running."""
    opened = _require_opened(record, out)
    task, kind = opened.task, plugins.load_plugin("formats", file.format)
    setting = RoundContext(
        **round_config(file, kind.rules_type.model_validate(opened.contest["rules"])),
        round=opened.round,
        task=Task(
            name=task.name,
            classes=tuple(task.classes),
            shape=(task.shape[0], task.shape[1], task.shape[2]),
            count=task.count,
            digest=task.digest,
            budget=Budget(Norm(task.norm), Fraction(task.epsilon)),
        ),
        samples=record.samples,
        secret=secrets.token_bytes(SECRET_BYTES),
        roster=record.round.roster,
        images=images,
        backend=backend,
        blobs=RoundFolder(out).blobs(),
    )
    try:
        yield setting
    finally:
        with suppress(InfrastructureFault):  # the next sweep of any round finds what this one could not end
            backend.sweep(ended=setting.run)


def _device(limits: Limits) -> str | None:
    if not limits.gpus:
        return None
    found = list_gpus()
    if not found:
        raise BackendUnavailable("the task asks for a GPU and this machine has none; play it again on one that has")
    return found[0].uuid
