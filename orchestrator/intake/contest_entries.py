"""Reads an entry of a contest file and its files, without asking a backend."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, model_validator

from orchestrator import resources
from orchestrator.domain.field_errors import KeyPath
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem, Rejected
from orchestrator.intake import manifest
from orchestrator.intake.manifest import Label, Slug
from orchestrator.intake.yaml_file import YamlFile


class EntrySection(BaseModel):
    """One submission: a folder with a manifest, an image that the engine has, or an archive of pictures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    builtin: Slug | None = None
    """A shipped baseline, by the name of its folder."""
    folder: str | None = None
    image: str | None = None
    pictures: str | None = None
    """An archive of pictures, for a format that accepts them (C2)."""
    name: Slug | None = None
    side: Side | None = None
    team: Label = "organizers"
    submitted: AwareDatetime | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> "EntrySection":
        if self.pictures is not None:
            others = (self.folder, self.builtin, self.image)
            if any(others) or self.name is None or self.side is Side.DEFENCE:
                raise ValueError(
                    "`pictures` are for an attack and stand alone; give `name`, but no `folder`, `builtin` or `image`"
                )
            return self
        if (
            self.folder is None
            and self.builtin is None
            and (self.image is None or self.name is None or self.side is None)
        ):
            raise ValueError(
                "the entry does not say what plays; give `builtin`, or `folder`, or `image` with `name` and `side`, "
                "or `pictures` with `name`"
            )
        return self


@dataclass(frozen=True, slots=True)
class EntryDescription:
    """An entry whose files were read; `folder` and `manifest` are None for an image without a folder.

    `pictures` is the path of an archive of pictures, None for a program.
    """

    name: str
    side: Side
    folder: Path | None
    manifest: manifest.Manifest | None
    pictures: Path | None = None


def read_entry(entry: EntrySection, beside: Path) -> EntryDescription:
    """Returns an entry with the contents of its files; `beside` is the folder of the contest file.

    Raises:
        Rejected: its folder does not exist, its manifest is invalid, or entry and manifest contradict each other.
    """
    if entry.pictures is not None:
        path = beside / entry.pictures
        if not path.is_file():
            problem = f"there is no file {path}"
            raise Rejected(
                "entry", [Problem("pictures", problem, "write the path relative to the folder of the contest file")]
            )
        return EntryDescription(entry.name or "", Side.ATTACK, None, None, path)
    folder = None if entry.folder is None else beside / entry.folder
    if entry.builtin is not None:
        folder = builtin_folder(entry.builtin)
    if folder is not None and not (folder / manifest.FILE_NAME).exists():
        problem = f"there is no {folder / manifest.FILE_NAME}"
        raise Rejected(
            "entry", [Problem("folder", problem, "write the path relative to the folder of the contest file")]
        )
    described = None if folder is None else manifest.read_manifest(folder)
    side = entry.side or (described.side if described else None)
    if side is None:
        raise Rejected("entry", [Problem("side", "is missing", "write `side: attack` or `side: defence`")])
    if described and described.side is not side:
        problem = f"the contest file says {side}, its submission.yaml {described.side}"
        raise Rejected("entry", [Problem("side", problem, "make them agree")])
    return EntryDescription(entry.name or (described.name if described else ""), Side(side), folder, described)


def builtin_folder(name: str) -> Path:
    """Returns the folder of a shipped baseline, or of a player of the warm-up. Raises Rejected if there is none."""
    places = (resources.resource_path("images"), resources.resource_path("examples", "warmup", "players"))
    known = {path.parent.name: path.parent for place in places for path in place.glob("*/submission.yaml")}
    if name not in known:
        raise Rejected("entry", [Problem("builtin", f"there is no {name!r}", f"one of {', '.join(sorted(known))}")])
    return known[name]


def entry_problems(entries: Iterable[tuple[KeyPath, EntrySection]], file: YamlFile) -> list[Problem]:
    """Returns the problems of these entries' files and names, each with its line in the contest file."""
    problems: list[Problem] = []
    names: set[str] = set()
    folders: dict[str, Path] = {}
    for place, entry in entries:
        try:
            described = read_entry(entry, file.path.resolve().parent)
        except Rejected as error:
            problems += [file.problem_at(place, str(problem)) for problem in error.problems]
            continue
        if described.name in names:
            problems.append(file.problem_at(place, f"a second {described.name!r}", "give one of them a `name:`"))
        names.add(described.name)
        if shared := image_name_conflict(entry, described, folders):
            problems.append(file.problem_at(place, *shared))
    return problems


def image_name_conflict(
    entry: EntrySection, described: EntryDescription, folders: dict[str, Path]
) -> tuple[str, str] | None:
    """Returns a problem and its remedy if another folder's image has the same name as this entry's, else None.

    `folders` maps the image names of earlier entries to their folders; this entry's is added. A copy of a folder has
    the same `image:`, and the image that was built last would play for both.
    """
    image = entry.image or (described.manifest.image if described.manifest else "")
    if described.folder is None or not image:
        return None
    other = folders.setdefault(image, described.folder.resolve())
    if other == described.folder.resolve():
        return None
    problem = f"its image {image} has the same name as the image of {other}, another folder"
    return problem, "give each folder an `image:` of its own, in its submission.yaml"
