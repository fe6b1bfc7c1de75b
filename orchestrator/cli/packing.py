"""`sparring submission build` and `sparring submission pack`."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.backends.base import Backend
from orchestrator.cli import console, places
from orchestrator.cli.console import Json, err, out, safe
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, UsageError
from orchestrator.intake import build as building
from orchestrator.intake import manifest, packing, source_tree
from orchestrator.intake.admission import tagged
from orchestrator.intake.build import SOURCE_LABEL, Wanted
from orchestrator.intake.built import Record
from orchestrator.intake.entry_names import PACKAGE
from orchestrator.wiring import build_log, machine

Folder = Annotated[Path, typer.Argument(help="The submission's folder.", metavar="PATH")]
HERE = Path()
_TAG = re.compile(
    r"[a-z0-9][a-z0-9._-]*(:[0-9]{1,5}/[a-z0-9._-]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
)
"""How an image is called, perhaps with its registry."""


@dataclass(frozen=True, slots=True)
class How:
    """How an image is built."""

    flavour: Annotated[str, typer.Option("--flavour", help="cpu, or cuda for what says `gpu: true`.")] = "cpu"
    tag: Annotated[str, typer.Option("--tag", help="The image's name; default: `image` in submission.yaml.")] = ""
    base: Annotated[str, typer.Option("--base", help="What BASE in the Dockerfile is.")] = ""
    network: Annotated[bool, typer.Option("--network", help="Give the build a network; organizers do not.")] = False
    log: Annotated[Path | None, typer.Option("--log", help="Where the builder's words are kept.")] = None


@console.command
def build(folder: Folder = HERE, how: How = How(), as_json: Json = False) -> None:
    """Build the image of a submission's folder, without a network, and print its id.

    What the builder says goes to standard error and into a log. Exits with 1 when a step fails.
    """
    if how.tag and not _TAG.fullmatch(how.tag):
        raise UsageError(
            f"--tag {printable(how.tag, 80)}: no image can be called so; write name or name:tag, lower case"
        )
    wanted = Wanted(how.flavour, how.tag, how.base, how.network, _revision(folder))
    prepared = building.prepare(folder, wanted)
    path = (
        places.for_file(how.log, "--log")
        if how.log
        else _cache() / "builds" / f"{prepared.manifest.name}-{how.flavour}.log"
    )
    if how.network:
        err.print("[yellow]warning:[/] this build has a network; where organizers build it, there is none")
    with tempfile.TemporaryDirectory(prefix="sparring-build-") as workspace, build_log.kept(path, _show) as log:
        workshop = _docker(workspace).workshop()
        try:
            identity = workshop.build(prepared.recipe, log)
        except Rejected as error:
            raise _explained(error, folder, log, network=how.network) from None
    if not how.base and not how.network:
        Record.here().note(prepared.tree.digest, how.flavour, identity)
    if as_json:
        document = {"image": identity, "tag": prepared.recipe.tag, "source": prepared.tree.digest, "log": str(path)}
        console.emit({**document, "left_out": list(prepared.tree.left_out)})
        return
    _left_out(prepared.tree.left_out)
    out.print(f"image    {safe(prepared.recipe.tag)}", soft_wrap=True)
    out.print(f"id       {identity}", soft_wrap=True)
    out.print(f"log      {safe(str(path))}", soft_wrap=True)


@console.command
def pack(
    folder: Folder = HERE,
    image: Annotated[
        str, typer.Option("--image", help="The image to pack; default: that of submission.yaml, if it is built.")
    ] = "",
    no_image: Annotated[
        bool, typer.Option("--no-image", help="Pack the folder only: the image is built there.")
    ] = False,
    target: Annotated[Path | None, typer.Option("--out", help="The file; default: the name and .sparring.tar.")] = None,
    as_json: Json = False,
) -> None:
    """Write a submission as one file, with its image, for `sparring submit` elsewhere.

    The same folder and image give the same file. Prints its digest, its size, and what was left out.
    """
    if image and no_image:
        raise UsageError("--image and --no-image: choose one")
    found = manifest.read(folder)
    wanted = tagged(image or ("" if no_image else found.image))
    path = places.for_file(target or Path(f"{found.name}{PACKAGE}"), "--out")
    warnings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sparring-pack-") as workspace:
        backend = None if wanted is None else _with_image(workspace, wanted, needed=bool(image))
        if backend is not None and wanted is not None:
            warnings = _stale(backend, wanted, folder, found)
        packed = packing.pack(folder, path, None if backend is None else backend.workshop(), wanted or "")
    if as_json:
        document = {"package": str(path), "digest": packed.digest, "size": packed.size, "image": packed.image or None}
        console.emit({**document, "files": packed.files, "left_out": list(packed.left_out), "warnings": warnings})
        return
    _left_out(packed.left_out)
    out.print(f"package  {safe(str(path))}", soft_wrap=True)
    out.print(f"digest   {packed.digest}", soft_wrap=True)
    out.print(f"size     {packed.size} bytes, {packed.files} files{' and an image' if packed.image else ', no image'}")
    if packed.image:
        out.print(f"image    {packed.image}, wherever it is brought in", soft_wrap=True)
    for warning in warnings:
        err.print(f"[yellow]warning:[/] {safe(warning)}", soft_wrap=True)


def _with_image(workspace: str, wanted: str, *, needed: bool) -> Backend | None:
    """Returns the backend, once it is seen to have an image; None, said so, where it has none and none was asked for.

    Raises:
        UsageError, BackendUnavailable: it was asked for, and is not there.
    """
    try:
        backend = _docker(workspace)
        backend.check()
        backend.look_into(wanted, files=False)
    except (BackendUnavailable, UsageError) as error:
        if needed:
            raise
        err.print(f"no image: {safe(str(error))}", soft_wrap=True)
        err.print("the folder is packed alone; where it is handed in, its image is built from it", soft_wrap=True)
        return None
    return backend


def _docker(workspace: str) -> Backend:
    return machine.backend("docker", Path(workspace))


def _stale(backend: Backend, wanted: str, folder: Path, found: manifest.Manifest) -> list[str]:
    """Returns what in the image does not fit the folder that it is packed with."""
    facts = backend.look_into(wanted, files=False)
    warnings = []
    made_of = facts.labels.get(SOURCE_LABEL, "")
    if made_of and made_of != source_tree.survey(folder).digest:
        warnings.append(f"{wanted} was built from other files than this folder's; build it again, or pack it knowingly")
    if (words := [*facts.entrypoint, *facts.command]) != found.command:
        warnings.append(f"{wanted} starts {' '.join(words)!r}, submission.yaml says {' '.join(found.command)!r}")
    return warnings


def _show(line: str) -> None:
    err.print(safe(line, 2000), style="dim", soft_wrap=True)


def _left_out(names: tuple[str, ...]) -> None:
    if names:
        err.print(f"left out {safe(', '.join(names), 1000)}", soft_wrap=True)


def _explained(error: Rejected, folder: Path, log: build_log.BuildLog, *, network: bool) -> Rejected:
    """Returns a failed build's error with where its log is, its last lines where they were not shown, and a hint."""
    hint = None if network else building.missing_wheels(folder)
    for line in log.last if log.hidden else ():
        err.print(safe(line, 2000), soft_wrap=True)
    problems = list(error.problems)
    if log.last:
        problems.append(Problem("log", f"it ends with: {log.last[-1]}", f"all of it is in {log.path}"))
    if hint:
        problems.append(Problem("wheels", *hint))
    return Rejected(error.subject, problems)


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "sparring"


def _revision(folder: Path) -> str:
    """Returns the commit that a folder is at, empty where git does not say, or says that it was changed since."""
    words = ["git", "-c", "core.fsmonitor=false", "-C", str(folder)]
    try:
        head = subprocess.run([*words, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        changed = subprocess.run(
            [*words, "status", "--porcelain", "--", "."], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    commit = head.stdout.strip()
    return "" if changed.stdout.strip() or not commit.isalnum() else commit
