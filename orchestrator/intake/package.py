"""The first file of a package, `sparring-package.json`, which lists the other files with sizes and digests."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.archives.members import MalformedArchive
from orchestrator.domain.field_errors import field_errors
from orchestrator.intake.manifest import Slug

FILE_NAME = "sparring-package.json"
SOURCE, IMAGE = "source", "image"
"""The two folders of a package: the submission's own, and an OCI image layout."""
MAX_BYTES = 8 * 1024**2
_REMEDY = "make it with `sparring submission pack`, and change nothing in it"


class PackedFile(BaseModel):
    """One file of a package."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Package(BaseModel):
    """The contents of `sparring-package.json`. `image` is the id that the image has once loaded, "" without one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sparring_package: Literal[1]
    """The version of this format."""
    name: Slug
    image: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    members: list[PackedFile]

    def encode(self) -> bytes:
        """Returns the file's bytes, always the same for the same content."""
        return self.model_dump_json(indent=1).encode() + b"\n"


def parse_package(data: bytes) -> Package:
    """Returns a package's list of files. Raises MalformedArchive."""
    try:
        package = Package.model_validate_json(data)
    except ValidationError as error:
        problem = field_errors(error, Package)[0].problem("file")
        raise MalformedArchive(f"{FILE_NAME} is not valid: {problem.place}: {problem.what}", _REMEDY) from None
    paths = [member.path for member in package.members]
    if len(set(paths)) != len(paths):
        raise MalformedArchive(f"{FILE_NAME} lists a file twice", _REMEDY)
    return package
