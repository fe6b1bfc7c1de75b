"""Checks an archive of pictures before it is submitted: whether it would be received, and how large the changes are."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.intake import picture_entries
from orchestrator.intake.contest_file import Contest
from orchestrator.measures import norms


@dataclass(frozen=True, slots=True)
class PictureCheck:
    """An archive's pictures in comparison with the task's own.

    Attributes:
        pictures: the number of pictures.
        digest: the archive's digest, as its receipt will have it.
        decoder: the libraries that decoded it.
        changed: the number of pictures that differ from the task's picture.
        beyond_budget: the number of pictures that exceed the task's budget (A14); 0 without a budget.
        largest: the largest change of a value, in steps of 1/255.
        median: the median over the pictures of their largest change.
        measures: the format's measures that need no hidden model, by name.
    """

    pictures: int
    digest: str
    decoder: str
    changed: int
    beyond_budget: int
    largest: int
    median: float
    measures: dict[str, float]


def check_pictures(path: Path, contest: Contest, task: str | None = None) -> PictureCheck:
    """Checks an archive against a task's pictures. Raises Rejected with all its problems, and UsageError."""
    name = task or contest.only_task
    samples = contest.load_samples(name)
    archive = picture_entries.read_entry_pictures(path, contest, name)
    distances = np.abs(archive.pixels.astype(np.int16) - samples.pixels).reshape(len(samples), -1).max(axis=1)
    budget = contest.make_task(samples, name).budget
    beyond = 0
    if budget is not None:
        inside, _ = norms.judge_candidates(samples.pixels, archive.pixels, budget)
        beyond = int((~inside).sum())
    return PictureCheck(
        pictures=len(samples),
        digest=archive.digest,
        decoder=archive.decoder,
        changed=int((distances > 0).sum()),
        beyond_budget=beyond,
        largest=int(distances.max()),
        median=float(np.median(distances)),
        measures=contest.format.measure_pictures(samples.pixels, archive.pixels),
    )
