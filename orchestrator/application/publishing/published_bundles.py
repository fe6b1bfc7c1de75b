"""The bundles in a contest's folder, such as `published/sealed-1`, each with a zip after its first download."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.publishing import bundles
from orchestrator.application.publishing.bundles import PublishedBundle
from orchestrator.bundles.layout import BundleKind
from orchestrator.errors import StoreFault, UsageError
from orchestrator.files import UNFINISHED_PREFIX
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import lock_folder

FOLDER = "published"
KINDS: tuple[BundleKind, ...] = ("sealed", "full")
_NAME = re.compile(r"(sealed|full)-([1-9]\d{0,5})")


def bundle_names(folder: ContestFolder) -> list[str]:
    """Returns the names of the complete bundles, sealed ones first, each kind in the order of publication."""
    place = folder.path / FOLDER
    found = [_NAME.fullmatch(path.name) for path in place.iterdir() if path.is_dir()] if place.is_dir() else []
    return [name[0] for name in sorted(filter(None, found), key=lambda name: (KINDS.index(name[1]), int(name[2])))]


def sealed_names(folder: ContestFolder) -> list[str]:
    """Returns the names of the sealed bundles, which everybody may have: without labels, answers and secrets."""
    return [name for name in bundle_names(folder) if name.startswith("sealed-")]


def next_name(folder: ContestFolder, kind: BundleKind) -> str:
    """Returns the name of the next bundle of a kind."""
    own = [int(name.rpartition("-")[2]) for name in bundle_names(folder) if name.startswith(f"{kind}-")]
    return f"{kind}-{max(own, default=0) + 1}"


def publish(admin: ContestAdmin, name: str, *, unfinished: bool = False) -> PublishedBundle:
    """Publishes a bundle into the contest's folder under a name from `next_name`. Raises like `publish_bundle`.

    Also raises UsageError if a bundle has this name already, and Busy while another process publishes.
    """
    kind, _, _ = name.partition("-")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a bundle; call it {next_name(admin.folder, 'sealed')}")
    with _held(admin.folder):
        return bundles.publish_bundle(
            admin, admin.folder.path / FOLDER / name, cast("BundleKind", kind), unfinished=unfinished
        )


def bundle_archive(folder: ContestFolder, name: str) -> Path | None:
    """Returns the path of a bundle's zip, which is packed at the first call; None if no bundle has this name.

    Raises StoreFault if the zip cannot be written.
    """
    if name not in bundle_names(folder):
        return None
    path = folder.path / FOLDER / f"{name}.zip"
    if not path.exists():
        with _held(folder):
            _pack(path.with_suffix(""), path)
    return path


def _pack(bundle: Path, path: Path) -> None:
    unfinished = path.with_name(f"{UNFINISHED_PREFIX}{path.name}")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(each for each in bundle.rglob("*") if each.is_file()):
                archive.write(file, Path(bundle.name) / file.relative_to(bundle))
        unfinished.rename(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StoreFault(f"{path} cannot be written: {error}; make room") from error


@contextmanager
def _held(folder: ContestFolder) -> Iterator[None]:
    place = folder.path / FOLDER
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreFault(f"{place} cannot be made: {error}; make room") from error
    with lock_folder(place, "a bundle of this contest is being written at this moment; look again in a minute"):
        yield
