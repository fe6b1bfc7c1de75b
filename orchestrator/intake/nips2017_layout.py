"""Reads submissions of the form `files`: the NIPS 2017 competition's layout, played by an adapter in the sandbox.

The layout is a folder with `metadata.json` and the entry script that it names. The adapter, `sparring_files`, is a
player like any other, beside the helper in images/_base/python. The files that are read here are a stranger's.
"""

import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.domain.field_errors import FieldError, dotted_path, field_errors
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

FILE_NAME = "metadata.json"
SIZE_LIMIT = 64 * 1024
SIDES = {"attack": Side.ATTACK, "defense": Side.DEFENCE}
"""The layout's word for a side -> the side."""
TARGETED_ATTACK = "targeted_attack"
LABELS_FROM_OPTION = "--labels-from"
_DOCKERFILE = """\
# BASE may be any image with the programs that the entry script calls, and the adapter:
# `sparring explain migrating-from-nips-2017`
ARG BASE=sparring/base:cpu
FROM ${BASE}
COPY . /opt/player/
WORKDIR /opt/player
"""


class Metadata(BaseModel):
    """The contents of `metadata.json`. Its `container_gpu` and other keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Annotated[str, Field(max_length=100)]
    entry_point: Annotated[str, Field(min_length=1, max_length=200)]
    container: Annotated[str, Field(max_length=500)] = ""
    """The image in which it ran; it is not pulled."""

    @property
    def side(self) -> Side:
        """The submission's side. Raises KeyError for a type that `read_metadata` refuses."""
        return SIDES[self.type]


def read_metadata(folder: Path, side: Side | None = None) -> Metadata:
    """Returns the contents of a folder's `metadata.json`. Follows no symbolic link.

    Raises:
        Rejected: with all problems: the file is invalid, its side is not `side`, or its script is missing.
    """
    path = folder / FILE_NAME
    metadata, problems = _parse_metadata(path)
    if metadata is not None:
        problems = [*_type_problems(metadata, side), *_entry_point_problems(metadata, folder)]
    if metadata is None or problems:
        raise Rejected(str(path), problems)
    return metadata


def _parse_metadata(path: Path) -> tuple[Metadata | None, list[Problem]]:
    if path.is_symlink() or not path.is_file():
        remedy = "`sparring explain migrating-from-nips-2017` shows one"
        return None, [Problem(FILE_NAME, "missing, or no plain file", remedy)]
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        return None, [Problem(FILE_NAME, f"cannot be read: {error.strerror}", "make it readable")]
    if len(data) > SIZE_LIMIT:
        return None, [Problem(FILE_NAME, f"more than {SIZE_LIMIT} bytes", "shorten it")]
    try:
        return Metadata.model_validate_json(data.removeprefix(b"\xef\xbb\xbf")), []
    except ValidationError as error:
        return None, [_validation_problem(each) for each in field_errors(error)]


def adapter_command(labels_from: Literal[0, 1] = 0) -> list[str]:
    """Returns the command that starts a folder of the layout. `labels_from` is the number of its first class."""
    return ["python", "-m", "sparring_files", *([LABELS_FROM_OPTION, str(labels_from)] if labels_from else [])]


def adapter_dockerfile(labels_from: Literal[0, 1] = 0) -> str:
    """Returns a Dockerfile for a folder of the layout."""
    return f"{_DOCKERFILE}CMD {json.dumps(adapter_command(labels_from))}\n"


def _validation_problem(error: FieldError) -> Problem:
    place = dotted_path(error.path)
    remedy = 'one JSON object with "type" and "entry_point", both text'
    return Problem(f"{FILE_NAME}{place and f', {place}'}", error.what, remedy)


def _type_problems(metadata: Metadata, side: Side | None) -> list[Problem]:
    place = f"{FILE_NAME}, type"
    if metadata.type == TARGETED_ATTACK:
        problem = "targeted attacks cannot take part: no contest gives an attack a target class"
        return [Problem(place, problem, "enter an attack that aims at any wrong class")]
    if metadata.type not in SIDES:
        return [Problem(place, f"{printable(metadata.type, 60)!r} is not known", f"one of {', '.join(SIDES)}")]
    if side is not None and metadata.side is not side:
        return [Problem(place, f"it is of side {metadata.side}, submission.yaml says {side}", "make them agree")]
    return []


def _entry_point_problems(metadata: Metadata, folder: Path) -> list[Problem]:
    place, entry_point = f"{FILE_NAME}, entry_point", printable(metadata.entry_point, 100)
    path = PurePosixPath(metadata.entry_point)
    if path.is_absolute() or ".." in path.parts or "\0" in metadata.entry_point:
        return [Problem(place, f"{entry_point!r} leads out of the folder", "name a file of the folder")]
    inside = [folder.joinpath(*path.parts[: depth + 1]) for depth in range(len(path.parts))]
    if any(step.is_symlink() for step in inside) or not inside or not inside[-1].is_file():
        return [Problem(place, f"there is no plain file {entry_point!r}", "name the script that is called")]
    return []
