"""The public pictures of a task as arrays, for participants who train on them (rule B6)."""

import io
from pathlib import Path

import numpy as np

from orchestrator.domain.samples import Samples
from orchestrator.errors import UsageError
from orchestrator.files import write_whole
from orchestrator.intake.contest_file import Contest


def write_public_pictures(contest: Contest, task: str | None, path: Path) -> Samples:
    """Writes the public pictures of a task to a file as `write_arrays` does, and returns them.

    Raises:
        UsageError: there is no such task, or it has no public pictures.
        Rejected: the pictures cannot be read.
        StoreFault: the file cannot be written.
    """
    name = task or contest.only_task
    samples = contest.load_public_samples(name)
    if samples is None:
        remedy = "ask the organizers for pictures to train on; they may name some as the task's `sample`"
        raise UsageError(f"{contest.path}: the task {name} has no public pictures; {remedy}")
    write_arrays(path, samples)
    return samples


def write_arrays(path: Path, samples: Samples) -> None:
    """Writes pictures as an .npz archive of `images`, u8 [n, c, h, w], and `labels`, i64 [n]. Raises StoreFault."""
    archive = io.BytesIO()
    np.savez_compressed(archive, images=samples.pixels, labels=samples.labels)
    write_whole(path, archive.getvalue())
