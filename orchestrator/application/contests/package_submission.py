"""A submission in one file: unpacked as a stranger's archive, and turned into a folder and an image for admission."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from orchestrator.application.contests import submission_admission
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.admission_steps import UNWATCHED, StepLog
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import entry_images
from orchestrator.application.submissions.load_image import load_packaged_image
from orchestrator.bundles.receipts import Receipt
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.intake import archive, build_log, image_build, manifest
from orchestrator.intake.archive import UnpackedArchive
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import lock_folder
from orchestrator.sandboxes.base import Backend, ImageStore

PACKAGE_FOLDER_PREFIX, BUILD_LOG_FOLDER = "incoming-", "builds"
"""In a contest's folder: the prefix of the folders into which packages are unpacked, and the folder of build logs."""
REPOSITORY = "sparring-received"
"""The name that received images get on the engine, with a tag for each submission. Their own names are not read."""


def submit_package(
    admin: ContestAdmin,
    request: SubmissionRequest,
    path: Path,
    backend: Backend,
    show: Callable[[str], object] = lambda _: None,
    *,
    steps: StepLog = UNWATCHED,
) -> Receipt:
    """Admits the submission in an archive and returns its signed receipt; see `submission_admission.submit`.

    A backend with images starts the image in the package or, if it has none, an image that is built from its folder,
    without a network and on the organizers' base images only. `show` gets the lines of the build log; `steps` gets them
    too, and all other steps.

    Raises:
        UsageError: there is no such file.
        Rejected: with all reasons. The refusal is recorded, counts as no attempt of the team, and leaves no files.
    """
    request = replace(request, file_name=request.file_name or path.name)
    tag = f"{REPOSITORY}:{secrets.token_hex(16)}"
    with ExitStack() as stack:
        incoming = stack.enter_context(_package_folder(admin.folder))
        try:
            unpacked = stack.enter_context(archive.open_archive(path, incoming))
            steps.add("archive", True)
            submission_manifest = manifest.read_manifest(unpacked.source)
        except Rejected as error:
            steps.result("archive and manifest", error.problems)
            known = submission_admission.request_problems(admin, request, None)
            problems = [*error.problems, *(each for each in known if each.place != "side")]
            submission_admission.refuse(admin, request, problems)
        request = replace(request, folder=unpacked.source).completed(submission_manifest)
        problems = submission_admission.request_problems(admin, request, submission_manifest)
        steps.result("manifest", problems)
        if problems:
            submission_admission.refuse(admin, request, problems)
        image_store = entry_images.find_image_store(backend)
        if image_store is None:
            return submission_admission.submit(admin, request, backend, steps)

        def show_line(line: str) -> None:
            show(line)
            steps.line(line)

        undo = stack.enter_context(ExitStack())
        undo.callback(image_store.untag, tag)
        try:
            image = _load_or_build_image(admin, unpacked, image_store, tag, show_line)
            steps.add("build", True)
        except Rejected as error:
            steps.result("build", error.problems)
            submission_admission.refuse(admin, request, list(error.problems))
        receipt = submission_admission.submit(admin, replace(request, image=image), backend, steps)
        undo.pop_all()
        return receipt


@contextmanager
def _package_folder(contest: ContestFolder) -> Iterator[Path]:
    """Creates a folder to unpack a package into and removes it on exit. Also removes those of killed commands.

    The folder is created and locked under the contest's write lock, so that no other command takes it for abandoned
    in between.
    """
    folder = contest.path / f"{PACKAGE_FOLDER_PREFIX}{secrets.token_hex(8)}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with contest.writing():
            folder.mkdir()
            stack.enter_context(
                lock_folder(folder, f"another command reads a package into {folder}; wait for it or end it")
            )
            for other in contest.path.glob(f"{PACKAGE_FOLDER_PREFIX}*"):
                if other != folder:
                    _remove_if_abandoned(other)
        yield folder / "package"


def _remove_if_abandoned(left: Path) -> None:
    """Removes a folder of a killed command; one that is locked by a running command stays."""
    with suppress(UsageError, StoreFault), lock_folder(left, "it is being read"):
        shutil.rmtree(left, ignore_errors=True)


def _load_or_build_image(
    admin: ContestAdmin, unpacked: UnpackedArchive, image_store: ImageStore, tag: str, show: Callable[[str], object]
) -> str:
    """Returns the id of an archive's image after loading it, or building it if there is none. Raises Rejected."""
    if unpacked.image is not None:
        return load_packaged_image(unpacked, image_store, tag)
    submission_manifest = manifest.read_manifest(unpacked.source)
    recipe = image_build.untrusted_recipe(
        unpacked.source, tag, cuda=bool(admin.contest.file.limits.gpus and submission_manifest.gpu)
    )
    name = f"{submission_manifest.name}-{unpacked.digest.removeprefix('sha256:')[:12]}.log"
    build_log.remove_oldest_logs(admin.folder.path / BUILD_LOG_FOLDER)
    with build_log.open_build_log(admin.folder.path / BUILD_LOG_FOLDER / name, show) as log:
        try:
            return image_store.build(recipe, log)
        except Rejected as error:
            log_problem = Problem(
                "log", f"{BUILD_LOG_FOLDER}/{name} in the contest's folder", "it ends with the step that failed"
            )
            raise Rejected(error.subject, [*error.problems, log_problem]) from error
