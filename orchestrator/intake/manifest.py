"""`submission.yaml`: what a submission says of itself."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.yaml_file import YamlFile

FILE_NAME = "submission.yaml"
SIZE_LIMIT = 64 * 1024
"""The most bytes of a manifest: strangers write it."""

_SLUG = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Slug = Annotated[str, Field(pattern=_SLUG, description="lower case, digits, - and _")]
Label = Annotated[str, Field(min_length=1, max_length=120)]


class Manifest(BaseModel):
    """A submission's own description, in the folder it lies in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sparring: Literal[1]
    """The version of this file format."""
    name: Slug
    side: Side
    description: Annotated[str, Field(max_length=2000)] = ""
    command: Annotated[list[str], Field(min_length=1, max_length=64)]
    """How to start it in its folder; the image's command is the same."""
    image: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/-]{0,200}(:[A-Za-z0-9._-]{1,100})?$")] = ""
    """The tag under which `make images` or its authors build it."""
    gpu: bool = False
    """Whether it can use a GPU."""
    licence: Annotated[str, Field(max_length=100)] = ""
    """SPDX id (rule A6)."""
    source: Annotated[str, Field(max_length=500)] = ""
    """Where its source is published (rule A6)."""


def read(folder: Path) -> Manifest:
    """Returns the manifest in a folder. Raises Rejected with all problems at once; a link is not followed."""
    path = folder / FILE_NAME
    if path.is_symlink():
        raise Rejected(str(path), [Problem("file", "a symbolic link", "put the file itself there")])
    return YamlFile(path, SIZE_LIMIT).model(Manifest)


def is_slug(text: str) -> bool:
    """Returns whether a text may be a name, of which paths and tags are made."""
    return re.fullmatch(_SLUG, text, re.ASCII) is not None
