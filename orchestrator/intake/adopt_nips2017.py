"""Makes a submission of a folder in the NIPS 2017 layout: adds the files that it lacks, and changes none."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator import resources
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.intake import dockerfile, manifest, nips2017_layout
from orchestrator.intake.nips2017_layout import Metadata

DOCKERIGNORE = ".dockerignore"


@dataclass(frozen=True, slots=True)
class AdoptionRequest:
    """The options of an adoption. `name`: "" for the folder's name; `licence`: an SPDX id (rule A6), "" for none."""

    name: str = ""
    labels_from: Literal[0, 1] = 0
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The new submission: its name and side, its entry script, and the files that were written."""

    folder: Path
    name: str
    side: Side
    entry_point: str
    container: str
    """The image that `metadata.json` names; hostile text, "" for none."""
    written_files: tuple[str, ...]


def adopt_folder(folder: Path, request: AdoptionRequest) -> Adoption:
    """Writes a manifest beside a folder's `metadata.json`, and a Dockerfile and a .dockerignore if it has none.

    Raises:
        UsageError: it has a manifest already, the name or the licence is invalid, or it cannot be written to.
        Rejected: it does not have the layout; with all problems.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}; name the one that holds {nips2017_layout.FILE_NAME}")
    metadata = nips2017_layout.read_metadata(folder)
    name = request.name or re.sub(r"[^a-z0-9_-]+", "-", folder.resolve().name.lower()).strip("-_")[:64]
    if not manifest.is_slug(name):
        remedy = "give another with --name: lower case, digits, - and _, at most 64"
        raise UsageError(f"'{printable(name, 80)}' cannot be a submission's name; {remedy}")
    if request.licence:
        manifest.require_spdx_id(request.licence)
    texts = _file_texts(metadata, name, request)
    if _exists(folder / manifest.FILE_NAME):
        raise UsageError(f"{folder / manifest.FILE_NAME} already exists; `sparring submission check` tests it")
    missing = {file: text for file, text in texts.items() if not _exists(folder / file)}
    try:
        for file, text in missing.items():
            with (folder / file).open("x", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror or error}") from error
    manifest.read_manifest(folder)
    return Adoption(folder, name, metadata.side, metadata.entry_point, metadata.container, tuple(missing))


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _file_texts(metadata: Metadata, name: str, request: AdoptionRequest) -> dict[str, str]:
    made_of = {
        "sparring": "1",
        "name": f'"{name}"',
        "side": metadata.side.value,
        "form": manifest.Form.FILES.value,
        "image": manifest.new_image_name(metadata.side, name),
        **({"labels_from": str(request.labels_from)} if request.labels_from else {}),
        **({"licence": f'"{request.licence}"'} if request.licence else {}),
    }
    described = "".join(f"{key}: {value}\n" for key, value in made_of.items())
    return {
        manifest.FILE_NAME: "# The NIPS 2017 layout: metadata.json names the script that is called.\n" + described,
        dockerfile.FILE_NAME: nips2017_layout.adapter_dockerfile(request.labels_from),
        DOCKERIGNORE: resources.resource_path("images", "templates", "shared", DOCKERIGNORE).read_text("utf-8"),
    }
