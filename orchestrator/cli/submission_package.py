"""`sparring submission build` and `sparring submission pack`."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import composition
from orchestrator.cli import console, output_paths
from orchestrator.cli.console import Json, err, out, safe_text
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, UsageError
from orchestrator.intake import build_log, manifest, package_writer, source_tree
from orchestrator.intake import image_build as building
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.ignored_paths import PACKAGE_SUFFIX
from orchestrator.intake.image_build import SOURCE_LABEL, ImageBuildOptions
from orchestrator.sandboxes.base import Backend

FolderArgument = Annotated[Path, typer.Argument(help="The submission's folder.", metavar="PATH")]
CURRENT_FOLDER = Path()
_IMAGE_TAG = re.compile(
    r"[a-z0-9][a-z0-9._-]*(:[0-9]{1,5}/[a-z0-9._-]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
)
"""The name of an image, with or without its registry."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Options for building an image."""

    variant: Annotated[
        str, typer.Option("--variant", "--flavour", help="cpu, or cuda for a manifest that says `gpu: true`.")
    ] = "cpu"
    tag: Annotated[str, typer.Option("--tag", help="The image's name; default: `image` in submission.yaml.")] = ""
    base: Annotated[str, typer.Option("--base", help="Value of `ARG BASE` in the Dockerfile: the base image.")] = ""
    network: Annotated[bool, typer.Option("--network", help="Give the build a network; organizers do not.")] = False
    log: Annotated[Path | None, typer.Option("--log", help="Write the build log to this file.")] = None


@console.command
def build(folder: FolderArgument = CURRENT_FOLDER, how: BuildOptions = BuildOptions(), as_json: Json = False) -> None:
    """Build the image of a submission's folder, without a network, and print its id.

    The build log goes to standard error and into a file. Exits with 1 if a step fails.
    """
    if how.tag and not _IMAGE_TAG.fullmatch(how.tag):
        raise UsageError(
            f"--tag {printable(how.tag, 80)}: no image can be called so; write name or name:tag, lower case"
        )
    _require_folder(folder)
    options = ImageBuildOptions(how.variant, how.tag, how.base, how.network, _revision(folder))
    prepared = building.prepare_build(folder, options)
    path = (
        output_paths.require_file_path(how.log, "--log")
        if how.log
        else output_paths.cache_folder() / "builds" / f"{prepared.manifest.name}-{how.variant}.log"
    )
    if how.network:
        console.print_warning("this build has a network; where organizers build it, there is none", err)
    with (
        tempfile.TemporaryDirectory(prefix="sparring-build-") as workspace,
        build_log.open_build_log(path, console.print_log_line) as log,
    ):
        image_store = _docker(workspace).image_store()
        try:
            identity = image_store.build(prepared.recipe, log)
        except Rejected as error:
            raise _explained_failure(error, folder, log, network=how.network) from None
    if not how.base and not how.network:
        BuildRecord.of_user().add(prepared.tree.digest, how.variant, identity)
    if as_json:
        document = {"image": identity, "tag": prepared.recipe.tag, "source": prepared.tree.digest, "log": str(path)}
        console.print_json({**document, "left_out": list(prepared.tree.left_out)})
        return
    _print_left_out(prepared.tree.left_out)
    out.print(f"image    {safe_text(prepared.recipe.tag)}", soft_wrap=True)
    out.print(f"id       {identity}", soft_wrap=True)
    out.print(f"log      {safe_text(str(path))}", soft_wrap=True)


@console.command
def pack(
    folder: FolderArgument = CURRENT_FOLDER,
    image: Annotated[
        str, typer.Option("--image", help="The image to pack; default: that of submission.yaml, if it is built.")
    ] = "",
    no_image: Annotated[
        bool, typer.Option("--no-image", help="Pack only the folder; the organizers build the image.")
    ] = False,
    target: Annotated[Path | None, typer.Option("--out", help="The file; default: the name and .sparring.tar.")] = None,
    as_json: Json = False,
) -> None:
    """Write a submission as one file, with its image, for `sparring submit` elsewhere.

    The same folder and image give the same file. Prints its digest, its size, and what was left out.
    """
    if image and no_image:
        raise UsageError("--image and --no-image: choose one")
    _require_folder(folder)
    submission_manifest = manifest.read_manifest(folder)
    path = output_paths.require_file_path(target or Path(f"{submission_manifest.name}{PACKAGE_SUFFIX}"), "--out")
    packed, warnings = pack_folder(folder, path, image, no_image=no_image)
    if as_json:
        document = {"package": str(path), "digest": packed.digest, "size": packed.size, "image": packed.image or None}
        console.print_json({**document, "files": packed.files, "left_out": list(packed.left_out), "warnings": warnings})
        return
    _print_left_out(packed.left_out)
    out.print(f"package  {safe_text(str(path))}", soft_wrap=True)
    out.print(f"digest   {packed.digest}", soft_wrap=True)
    out.print(f"size     {packed.size} bytes, {packed.files} files{' and an image' if packed.image else ', no image'}")
    if packed.image:
        out.print(f"image    {packed.image}, wherever it is brought in", soft_wrap=True)
    for warning in warnings:
        console.print_warning(warning, err)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {printable(str(folder), 200)!r}; name the one with submission.yaml")


def pack_folder(
    folder: Path, path: Path, image: str = "", *, no_image: bool = False
) -> tuple[package_writer.WrittenPackage, list[str]]:
    """Writes a submission's folder as a package, with its image if that is built; returns the package and warnings.

    Raises like `write_package`, and UsageError or BackendUnavailable if `image` is given and does not exist.
    """
    submission_manifest = manifest.read_manifest(folder)
    image_tag = manifest.with_tag(image or ("" if no_image else submission_manifest.image))
    warnings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sparring-pack-") as workspace:
        backend = None if image_tag is None else _backend_with_image(workspace, image_tag, needed=bool(image))
        if backend is not None and image_tag is not None:
            warnings = _stale_warnings(backend, image_tag, folder, submission_manifest)
        images = None if backend is None else backend.image_store()
        return package_writer.write_package(folder, path, images, image_tag or ""), warnings


def _backend_with_image(workspace: str, tag: str, *, needed: bool) -> Backend | None:
    """Returns the backend if it has the image; if not and the image is not needed, prints so and returns None.

    Raises:
        UsageError, BackendUnavailable: the image is needed, and does not exist.
    """
    try:
        backend = _docker(workspace)
        backend.require_available()
        backend.inspect_image(tag, files=False)
    except (BackendUnavailable, UsageError) as error:
        if needed:
            raise
        err.print(f"no image: {safe_text(str(error))}", soft_wrap=True)
        err.print("the folder is packed alone; where it is submitted, its image is built from it", soft_wrap=True)
        return None
    return backend


def _docker(workspace: str) -> Backend:
    return composition.make_backend("docker", Path(workspace))


def _stale_warnings(backend: Backend, tag: str, folder: Path, submission_manifest: manifest.Manifest) -> list[str]:
    """Returns warnings about differences between the image and the folder with which it is packed."""
    facts = backend.inspect_image(tag, files=False)
    warnings = []
    made_of = facts.labels.get(SOURCE_LABEL, "")
    if made_of and made_of != source_tree.scan_folder(folder).digest:
        warnings.append(f"{tag} was built from other files than this folder's; build it again, or pack it knowingly")
    if (command := [*facts.entrypoint, *facts.command]) != submission_manifest.command:
        warnings.append(
            f"{tag} starts {' '.join(command)!r}, submission.yaml says {' '.join(submission_manifest.command)!r}"
        )
    return warnings


def _print_left_out(names: tuple[str, ...]) -> None:
    if names:
        err.print(f"left out {safe_text(', '.join(names), 1000)}", soft_wrap=True)


def _explained_failure(error: Rejected, folder: Path, log: build_log.BuildLog, *, network: bool) -> Rejected:
    """Returns a failed build's error with the log's path and a hint; prints the last lines if they were not shown."""
    hint = None if network else building.missing_wheels_problem(folder)
    for line in log.tail if log.is_cut else ():
        err.print(safe_text(line, 2000), soft_wrap=True)
    problems = list(error.problems)
    if log.tail:
        problems.append(Problem("log", f"it ends with: {log.tail[-1]}", f"all of it is in {log.path}"))
    if hint:
        problems.append(Problem("wheels", *hint))
    return Rejected(error.subject, problems)


def _revision(folder: Path) -> str:
    """Returns the commit of a folder; "" if git does not know it, or the folder was changed since."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder)]
    try:
        head = subprocess.run([*command, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        changed = subprocess.run(
            [*command, "status", "--porcelain", "--", "."], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    commit = head.stdout.strip()
    return "" if changed.stdout.strip() or not commit.isalnum() else commit
