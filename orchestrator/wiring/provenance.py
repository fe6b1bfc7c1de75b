"""Whose an image is that a submission only names: an engine has those of every team, and the organizers' own.

What comes in a package is the submission's, whatever it is; a name may be anybody's.
"""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.backends.base import Backend, Image
from orchestrator.domain.season import Season
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.build import SOURCE_LABEL
from orchestrator.intake.source_tree import survey

_REMEDY = "build it from this team's folder with `sparring submission build`, or hand in a package of it"


def objections(season: Season, team: str, folder: Path | None, image: Image, backend: Backend) -> Iterator[Problem]:
    """Yields why an image that was named, by the manifest in `folder` or at the desk, is not this team's.

    What another team handed in before is theirs. What a manifest names has to be built from its folder: an image
    carries the digest of the files that it was built from as a label.
    """
    for entry in season.entries.values():
        if entry.digest == image.digest and entry.team != team:
            yield Problem("image", f"{image.name} was handed in before by {entry.team}, as {entry.id}", _REMEDY)
            break
    if folder is None:
        return
    made_of = backend.look_into(image.digest, files=False).labels.get(SOURCE_LABEL, "")
    try:
        here = survey(folder).digest
    except Rejected as error:
        yield from error.problems
        return
    if made_of != here:
        of_what = printable(made_of, 80) or f"what it does not say (no label {SOURCE_LABEL})"
        yield Problem("image", f"{image.name} was built from {of_what}, and this folder is {here}", _REMEDY)
