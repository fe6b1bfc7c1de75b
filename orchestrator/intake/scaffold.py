"""Creates a participant's first folder from a template: complete, and playable at once.

A template consists of the files in `images/templates/shared/`, in `FRAMEWORK/` beside it, and in `FRAMEWORK/attack/` or
`FRAMEWORK/defence/`; later files replace earlier ones of the same name.
"""

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
"""A mark that each template's player has once, at the place to change."""
DEFAULT_LICENCE = "Apache-2.0"
"""The licence whose text is in `shared/LICENSE`."""
FIRST_OPPONENT = {Side.ATTACK: "undefended", Side.DEFENCE: "fgsm"}
"""The baseline to try first, by the submission's side, in the default contest of `sparring submission try`."""
_PACKAGES = f"""

A build has no network. Before the first one, download the packages that `requirements.lock` names, in this folder:

```sh
{DOWNLOAD_WHEELS}
```"""
_MORE_PACKAGES = " To add packages\nto it: `sparring explain submit-an-attack#5-in-a-container`."


class Framework(StrEnum):
    """The framework or language of a template's player; each is a folder in images/templates/."""

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
        """The sides with a template: libraries of attacks have none for a defence."""
        return (Side.ATTACK,) if self in QUERYING else tuple(Side)


QUERYING = (Framework.FOOLBOX, Framework.ART)
"""Frameworks whose template is an attack that queries decisions; its image is built like that of NumPy's template."""
_PLAYER_FILES = {Framework.C: "player.c", Framework.JAVASCRIPT: "player.mjs"}
_FIRST_COMMANDS = {Framework.C: ("make -C",)}
"""Commands that a template needs before it can be started."""


@dataclass(frozen=True, slots=True)
class ScaffoldRequest:
    """The options of a new submission's folder; `licence` is an SPDX id (rule A6)."""

    side: Side
    name: str
    framework: Framework = Framework.NUMPY
    licence: str = DEFAULT_LICENCE


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A new folder: its files, the player's file, which has the `EDIT_MARK`, and the next commands."""

    folder: Path
    files: tuple[str, ...]
    player: str
    commands: tuple[str, ...]


def create_submission(request: ScaffoldRequest, folder: Path) -> Scaffold:
    """Writes a submission's folder, completely or not at all; `folder` may exist if it is empty.

    Raises:
        UsageError: the name or the licence is invalid, the framework has no template for this side, or the folder is
            not empty or cannot be written.
    """
    if not manifest.is_slug(request.name):
        remedy = "begin with a letter or digit, then lower case, digits, - and _, at most 64"
        raise UsageError(f"'{printable(request.name, 80)}' cannot be a submission's name; {remedy}")
    manifest.require_spdx_id(request.licence)
    if request.side not in request.framework.sides:
        raise UsageError(f"{request.framework} is a library of attacks and has no template for a {request.side}")
    place = str(folder)
    try:
        folder = folder.resolve()
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(f"{folder} is there already and not empty; give another name, or another --out")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{request.name}.", dir=folder.parent) as beside:
            file_names = _write_template(request, Path(beside), folder.name)
            _move_into_place(Path(beside), folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}; give another --out") from error
    return Scaffold(folder, file_names, _player_file(request), _next_commands(request, place))


def _write_template(request: ScaffoldRequest, folder: Path, place: str) -> tuple[str, ...]:
    """Fills a folder from the template; returns the names of its files. `place` is the folder's later name."""
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
        image=manifest.new_image_name(request.side, request.name),
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
    """Returns the README's text about the packages in the image."""
    if (folder / "requirements.lock").is_file():
        return _PACKAGES
    return _MORE_PACKAGES if framework in {Framework.NUMPY, Framework.PYTORCH} else ""


def _fill_template(path: Path, **values: str) -> None:
    path.write_text(string.Template(path.read_text("utf-8")).substitute(values), "utf-8")


def _yaml_text(text: str) -> str:
    """Returns a name as YAML text, in quotes if YAML would read it as a number or another value."""
    plain = text[0].isalpha() and text not in {"null", "true", "false"}
    return text if plain else f'"{text}"'


def _move_into_place(template: Path, folder: Path) -> None:
    """Moves the files of the template into the folder; after an error, removes those that were moved."""
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
    """Returns the next commands, to be run from the folder above, so that they write nothing into the submission."""
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
