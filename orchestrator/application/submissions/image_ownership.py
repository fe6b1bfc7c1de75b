"""Checks that an image which a submission only names is its team's own.

An engine has the images of all teams and of the organizers, and anybody can name them. An image in a package needs no
such check.
"""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.domain.season import Season
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.source_tree import scan_folder
from orchestrator.sandboxes.base import Image

_REMEDY = "build it from this team's folder with `sparring submission build`, or submit a package of it"


def ownership_problems(season: Season, team: str, folder: Path | None, image: Image) -> Iterator[Problem]:
    """Yields the reasons why an image that is named by the manifest in `folder`, or by the command, is not this team's.

    An image that another team submitted before belongs to that team. An image that a manifest names has to be built
    from its folder here, according to our own record of builds; its label proves nothing, since its maker wrote it.
    """
    for entry in season.entries.values():
        if entry.digest == image.digest and entry.team != team:
            yield Problem("image", f"{image.name} was submitted before by {entry.team}, as {entry.id}", _REMEDY)
            break
    if folder is None:
        return
    try:
        source_digest = scan_folder(folder).digest
    except Rejected as error:
        yield from error.problems
        return
    if source_digest not in (known := BuildRecord.of_user().sources_of(image.digest)):
        of_what = f"was built from {', '.join(sorted(known))}" if known else "is of no build that is on record here"
        yield Problem("image", f"{image.name} {of_what}, and this folder is {source_digest}", _REMEDY)
