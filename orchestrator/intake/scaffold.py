"""A participant's first folder: copied from a template, complete, and playable at once.

A template is what `images/templates/FRAMEWORK/` holds and, above it, its folder `attack/` or `defence/`; what
`shared/` holds is in all of them.
"""

import re
import shlex
import shutil
import stat
import string
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator import resources
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.intake import manifest
from orchestrator.intake.image_build import DOWNLOAD_WHEELS

EDIT_MARK = "CHANGE THIS"
"""Stands once in each template's player, at the one thing to change."""
DEFAULT_LICENCE = "Apache-2.0"
"""The licence whose text `shared/LICENSE` is."""
FIRST_OPPONENT = {Side.ATTACK: "undefended", Side.DEFENCE: "fgsm"}
"""The baseline that a submission of each side is told to try first: of the contest that `try` plays by default."""
_PACKAGES = f"""

A build has no network. Before the first one, download the packages that `requirements.lock` names, in this folder:

```sh
{DOWNLOAD_WHEELS}
```"""
_MORE_PACKAGES = " To add packages\nto it: `sparring explain submit-an-attack#5-in-a-container`."
_SPDX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,99}")


class Framework(StrEnum):
    """What the player is written with; each is a folder in images/templates/."""

    PYTORCH = "pytorch"
    NUMPY = "numpy"
    BARE = "bare"
    C = "c"
    JAVASCRIPT = "javascript"
    FILES = "files"
    FOOLBOX = "foolbox"
    ART = "art"

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that it has a template of: libraries of attacks have none of a defence."""
        return (Side.ATTACK,) if self in QUERYING else tuple(Side)


QUERYING = (Framework.FOOLBOX, Framework.ART)
"""Whose template is an attack that asks the defence for decisions, in an image that is built as NumPy's template is."""
_PLAYER_FILES = {Framework.C: "player.c", Framework.JAVASCRIPT: "player.mjs"}
_FIRST_COMMANDS = {Framework.C: ("make -C",)}
"""What a template needs before it can be started."""


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """What is asked for; `licence` is an SPDX id (rule A6)."""

    side: Side
    name: str
    framework: Framework = Framework.NUMPY
    licence: str = DEFAULT_LICENCE


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A new folder: its files, the one that holds the thing to change, and the next commands."""

    folder: Path
    files: tuple[str, ...]
    player: str
    commands: tuple[str, ...]


def create_submission(wanted: ScaffoldRequest, folder: Path) -> Scaffold:
    """Writes a submission's folder, whole or not at all; `folder` may be there, if it is empty.

    Raises:
        UsageError: a name or licence that cannot be one, or a folder that is not empty or cannot be written.
    """
    if not manifest.is_slug(wanted.name):
        remedy = "begin with a letter or digit, then lower case, digits, - and _, at most 64"
        raise UsageError(f"'{printable(wanted.name, 80)}' cannot be a submission's name; {remedy}")
    if not _SPDX_ID.fullmatch(wanted.licence):
        raise UsageError(f"'{printable(wanted.licence, 80)}' is not an SPDX id; see https://spdx.org/licenses/")
    if wanted.side not in wanted.framework.sides:
        raise UsageError(f"{wanted.framework} is a library of attacks and has no template for a {wanted.side}")
    place = str(folder)
    try:
        folder = folder.resolve()
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(f"{folder} is there already and not empty; give another name, or another --out")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{wanted.name}.", dir=folder.parent) as beside:
            file_names = _write_template(wanted, Path(beside), folder.name)
            _move_into_place(Path(beside), folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; give another --out") from error
    return Scaffold(folder, file_names, _player_file(wanted), _next_commands(wanted, place))


def _write_template(request: ScaffoldRequest, folder: Path, place: str) -> tuple[str, ...]:
    """Fills a folder, which will be called `place`, from the template; returns the names of its files."""
    templates = resources.resource_path("images", "templates")
    recipes = (Framework.NUMPY,) if request.framework in QUERYING else ()
    for part in ("shared", *recipes, request.framework, f"{request.framework}/{request.side}"):
        for path in sorted((templates / part).iterdir()):
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
                if path.stat().st_mode & stat.S_IXUSR:
                    (folder / path.name).chmod(0o755)
    _fill_template(
        folder / manifest.FILE_NAME,
        name=_yaml_text(request.name),
        # Not `sparring/...`: those are the organizers' images, which an engine may hold too.
        image="submission/" + re.sub(r"[_-]+", "-", f"{request.side}-{request.name}").strip("-"),
        licence=_yaml_text(request.licence),
    )
    _fill_template(
        folder / "README.md",
        name=request.name,
        description=manifest.read_manifest(folder).description,
        file=_player_file(request),
        commands="\n".join(_next_commands(request, place)),
        packages=_packages_text(request.framework, folder),
    )
    if request.licence != DEFAULT_LICENCE:
        (folder / "LICENSE").write_text(_licence_placeholder(request.licence), "utf-8")
    return tuple(sorted(path.name for path in folder.iterdir()))


def _packages_text(framework: Framework, folder: Path) -> str:
    """Returns what a README says of the packages in the image."""
    if (folder / "requirements.lock").is_file():
        return _PACKAGES
    return _MORE_PACKAGES if framework in {Framework.NUMPY, Framework.PYTORCH} else ""


def _fill_template(path: Path, **values: str) -> None:
    path.write_text(string.Template(path.read_text("utf-8")).substitute(values), "utf-8")


def _yaml_text(text: str) -> str:
    """Returns a name as YAML text, quoted where it would read as a number or another value."""
    plain = text[0].isalpha() and text not in {"null", "true", "false"}
    return text if plain else f'"{text}"'


def _move_into_place(template: Path, folder: Path) -> None:
    """Moves what was made to its place; what got there before an error is taken back."""
    fresh = not folder.exists()
    folder.mkdir(exist_ok=True)
    names = sorted(path.name for path in template.iterdir())
    try:
        for name in names:
            shutil.move(template / name, folder / name)
    except BaseException:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        if fresh:
            folder.rmdir()
        raise


def _player_file(request: ScaffoldRequest) -> str:
    return _PLAYER_FILES.get(request.framework, "player.py")


def _next_commands(request: ScaffoldRequest, place: str) -> tuple[str, ...]:
    """Returns the next commands, from the folder above: what they write does not belong into the submission."""
    first, quoted = _FIRST_COMMANDS.get(request.framework, ()), shlex.quote(place)
    access = " --access decision" if request.framework in QUERYING else ""
    return (
        *(f"{verb} {quoted}" for verb in first),
        f"sparring submission check {quoted}{access}",
        f"sparring submission try {quoted} --against {FIRST_OPPONENT[request.side]}{access}",
        f"sparring submission pack {quoted}",
    )


def _licence_placeholder(licence: str) -> str:
    return (
        f"SPDX-License-Identifier: {licence}\n\nPut the text of your licence here, with your name and the year:\n"
        f"https://spdx.org/licenses/{licence}.html\n"
    )
