"""Builds the shipped images with `images/build.sh`, from a clone or from an installed package."""

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator import resources
from orchestrator.application.baselines.program_output import read_lines
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, UsageError

PARTS = {"base": "images/_base", "runner": "images/runner", "service": "images/service"}
"""The parts that can be named, and the script's argument for each."""
_BUILT = re.compile(r"building (?P<image>\S+) \(\d+ s\)")
"""The line that the script prints when an image is built."""


def build_images(wanted: Sequence[str], work: Path, *, cuda: bool, on_line: Callable[[str], None]) -> list[str]:
    """Builds the wanted images: names of `PARTS` or folders of submissions; all shipped images if none is named.

    Returns the names of the images that were built.

    `work` keeps wheels from one call to the next. `on_line` is called with each line that the script prints.

    Raises:
        UsageError: a wanted name is neither a part nor a folder.
        InfrastructureFault: not all images were built; the message says why, with the script's remedy.
    """
    for name in wanted:
        if name not in PARTS and not Path(name).is_dir():
            raise UsageError(f"{printable(name, 200)} is neither a folder nor one of {', '.join(PARTS)}")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureFault(f"{work} cannot be made: {error.strerror}; set XDG_CACHE_HOME") from error
    words = [*(["--cuda"] if cuda else []), *(PARTS.get(name) or str(Path(name).resolve()) for name in wanted)]
    last, built = deque(["it printed nothing"], maxlen=2), []

    def note(line: str) -> None:
        last.append(line)
        on_line(line)
        if found := _BUILT.fullmatch(line):
            built.append(found["image"])

    with subprocess.Popen(
        ["bash", str(resources.resource_path("images", "build.sh")), *words],
        env=os.environ | {"PYTHON": sys.executable, "SPARRING_IMAGES_WORK": str(work)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as script:
        read_lines(script, script.stdout, 2000, note)
    if script.returncode:
        reason = "; ".join(line.strip().removeprefix("images/build.sh: ").removeprefix("remedy: ") for line in last)
        raise InfrastructureFault(f"the images were not built: {reason}")
    return built
