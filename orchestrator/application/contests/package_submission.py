"""A submission that comes as one file: read as a stranger's, and turned into a folder and an image before admission."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from orchestrator.application.contests.administration import ContestAdmin, SubmissionRequest
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain.ids import digest
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.intake import archive, build_log, image_archive, image_build, manifest
from orchestrator.intake.archive import UnpackedArchive
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import lock_folder
from orchestrator.sandboxes.base import Backend, ImageStore

INCOMING, BUILDS = "incoming-", "builds"
"""Folders of a contest: how those begin into which packages are read, and the logs of what was built."""
REPOSITORY = "sparring-received"
"""What images that came in are called here, with a tag for each submission. Their own names are not read."""


def submit_package(
    desk: ContestAdmin,
    handed: SubmissionRequest,
    path: Path,
    backend: Backend,
    show: Callable[[str], object] = lambda _: None,
) -> Receipt:
    """Admits the submission in an archive and returns its signed receipt; see `Desk.submit`.

    On a backend with images the one in the package is started, else one that is built from its folder, without a
    network and on the organizers' bases only. `show` gets the builder's words.

    Raises:
        UsageError: there is no such file.
        Rejected: with every reason; the refusal is on record, used up nothing, and left nothing here.
    """
    handed = replace(handed, package=path.name)
    tag = f"{REPOSITORY}:{secrets.token_hex(16)}"
    with ExitStack() as stack:
        incoming = stack.enter_context(_incoming(desk.folder))
        try:
            unpacked = stack.enter_context(archive.open_archive(path, incoming))
            found = manifest.read_manifest(unpacked.source)
        except Rejected as error:
            known = [problem for problem in desk.against(handed, None) if problem.place != "side"]
            desk.refuse(handed, [*error.problems, *known])
        submitted = replace(handed, folder=unpacked.source)
        if problems := desk.against(submitted, found):
            desk.refuse(replace(submitted, name=handed.name or found.name), problems)
        workshop = _image_store(backend)
        if workshop is None:
            return desk.submit(submitted, backend)
        undo = stack.enter_context(ExitStack())
        undo.callback(workshop.discard, tag)
        try:
            image = _load_or_build_image(desk, unpacked, workshop, tag, show)
        except Rejected as error:
            desk.refuse(replace(submitted, name=handed.name or found.name), list(error.problems))
        receipt = desk.submit(replace(submitted, image=image), backend)
        undo.pop_all()
        return receipt


@contextmanager
def _incoming(contest: ContestFolder) -> Iterator[Path]:
    """Gives a new folder to read a package into, and removes it again, with those of commands that were killed.

    It is made and locked while the contest is held, so that no other command takes it for a killed one's in between.
    """
    own = contest.path / f"{INCOMING}{secrets.token_hex(8)}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, own, ignore_errors=True)
        with contest.writing():
            own.mkdir()
            stack.enter_context(lock_folder(own, f"another command reads a package into {own}; wait for it or end it"))
            for other in contest.path.glob(f"{INCOMING}*"):
                if other != own:
                    _take_away(other)
        yield own / "package"


def _take_away(left: Path) -> None:
    """Removes what a killed command was reading; one that is still being read stays."""
    with suppress(UsageError, StoreFault), lock_folder(left, "it is being read"):
        shutil.rmtree(left, ignore_errors=True)


def _image_store(backend: Backend) -> ImageStore | None:
    try:
        return backend.workshop()
    except UsageError:  # it has no images: the folder is started
        return None


def _load_or_build_image(
    desk: ContestAdmin, unpacked: UnpackedArchive, workshop: ImageStore, tag: str, show: Callable[[str], object]
) -> str:
    """Returns the id of the image that is started for an archive, brought in or built. Raises Rejected."""
    if unpacked.image is not None:
        parts = image_archive.read_image_layout(unpacked.image)
        identity = digest(workshop.plain(parts.config))
        if unpacked.promised != identity:
            what = f"{identity}, the package says {unpacked.promised or 'nothing'}"
            raise Rejected("image", [Problem("image", what, "pack it again with `sparring submission pack`")])
        return workshop.load(parts.config, parts.layers, tag)
    found = manifest.read_manifest(unpacked.source)
    recipe = image_build.untrusted_recipe(unpacked.source, tag, cuda=bool(desk.contest.file.limits.gpus and found.gpu))
    name = f"{found.name}-{unpacked.digest.removeprefix('sha256:')[:12]}.log"
    with build_log.open_build_log(desk.folder.path / BUILDS / name, show) as log:
        try:
            return workshop.build(recipe, log)
        except Rejected as error:
            words = Problem("log", f"{BUILDS}/{name} in the contest's folder", "it ends with the step that failed")
            raise Rejected(error.subject, [*error.problems, words]) from error
