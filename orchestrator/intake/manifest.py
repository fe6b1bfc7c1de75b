"""Reads `submission.yaml`, a submission's own description."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable, reject_control_characters, reject_nul
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import nips2017_layout
from orchestrator.intake.yaml_file import YamlFile

FILE_NAME = "submission.yaml"
SIZE_LIMIT = 64 * 1024
"""The most bytes of a manifest: strangers write it."""

_SLUG = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Slug = Annotated[str, Field(pattern=_SLUG, description="lower case, digits, - and _")]
Label = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(reject_control_characters)]
CommandWord = Annotated[str, AfterValidator(reject_nul)]
"""A word of a command."""


class Form(StrEnum):
    """How the orchestrator communicates with a submission."""

    STREAM = "stream"
    """With the image protocol."""
    FILES = "files"
    """With files and an entry script, as in the NIPS 2017 competition, through an adapter in its sandbox."""


class Manifest(BaseModel):
    """A submission's own description, in the submission's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sparring: Literal[1]
    """The version of this file format."""
    name: Slug
    side: Side
    description: Annotated[str, Field(max_length=2000)] = ""
    form: Form = Form.STREAM
    """How the orchestrator communicates with the submission."""
    command: Annotated[list[CommandWord], Field(min_length=1, max_length=64)] = []
    """The command that starts it in its folder, and the image's command. With `form: files`, the adapter's command."""
    labels_from: Literal[0, 1] = 0
    """With `form: files`: the number of a defence's first class."""
    image: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9._/-]{0,200}(:[A-Za-z0-9._-]{1,100})?$",
            description="an image's name in lower case, such as team/entry:1",
        ),
    ] = ""
    """The tag under which `sparring image build` or its authors build it."""
    gpu: bool = False
    """Whether it can use a GPU."""
    licence: Annotated[str, Field(max_length=100)] = ""
    """The licence's SPDX id (rule A6)."""
    source: Annotated[str, Field(max_length=500), AfterValidator(reject_control_characters)] = ""
    """Where its source code is published (rule A6)."""


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest in a folder; with `form: files`, with the adapter's command. Follows no symbolic link.

    Raises:
        Rejected: with all problems, including those of a `metadata.json`.
    """
    path = folder / FILE_NAME
    if path.is_symlink():
        raise Rejected(str(path), [Problem("file", "a symbolic link", "put the file itself there")])
    if not path.exists():
        remedy = "give the folder of a submission, or make one with `sparring submission init`"
        raise Rejected(str(path), [Problem("file", "missing", remedy)])
    file = YamlFile(path, SIZE_LIMIT)
    problems: list[Problem] = []
    parsed = None
    try:
        parsed = file.parse_model(Manifest)
    except Rejected as error:
        problems += error.problems
    problems += _cross_key_problems(file)
    if file.value_at("form") == Form.FILES:
        try:
            nips2017_layout.read_metadata(folder, parsed.side if parsed else None)
        except Rejected as error:
            problems += error.problems
    if problems or parsed is None:
        raise file.rejection(*problems)
    if parsed.command:
        return parsed
    return parsed.model_copy(update={"command": nips2017_layout.adapter_command(parsed.labels_from)})


def _cross_key_problems(file: YamlFile) -> list[Problem]:
    """Returns the problems of keys that contradict or require each other, even if single keys are invalid."""
    form, command, labels_from = (file.value_at(key) for key in ("form", "command", "labels_from"))
    problems = []
    if command is None and form != Form.FILES:
        problems.append(
            file.problem_at(
                ("command",), "missing", "give the words that start it in its folder, such as [python, player.py]"
            )
        )
    if isinstance(command, list) and command and command[0] == "":
        problems.append(file.problem_at(("command", 0), "an empty word, which is no program", "name the program"))
    if labels_from is not None and form != Form.FILES:
        problem = "is allowed only with `form: files`"
        problems.append(
            file.problem_at(
                ("labels_from",), problem, "remove it; a player that speaks the protocol counts labels from 0"
            )
        )
    elif labels_from and command is not None:
        remedy = f"leave one of them out, or end the command with {nips2017_layout.LABELS_FROM_OPTION} 1"
        problems.append(file.problem_at(("labels_from",), "has no effect beside a `command`", remedy))
    return problems


def require_spdx_id(licence: str) -> None:
    """Raises UsageError for a text that cannot be the SPDX id of a licence (A6)."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,99}", licence):
        raise UsageError(f"'{printable(licence, 80)}' is not an SPDX id; see https://spdx.org/licenses/")


def new_image_name(side: Side, name: str) -> str:
    """Returns the name of a new submission's image: not `sparring/...`, since the engine may have the organizers'."""
    return "submission/" + re.sub(r"[_-]+", "-", f"{side}-{name}").strip("-")


def with_tag(image: str, flavour: str = "cpu") -> str | None:
    """Returns an image's name with a tag: the flavour if it has none; None for an empty name."""
    named = ":" in image.rsplit("/", 1)[-1]  # it has a tag or a digest, or is an id
    return (image if named else f"{image}:{flavour}") if image else None


def is_slug(text: str) -> bool:
    """Returns whether a text is a valid name, from which paths and tags can be made."""
    return re.fullmatch(_SLUG, text, re.ASCII) is not None
