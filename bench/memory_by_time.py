"""Measures how much one sandbox can find out, from times alone, about the names that an earlier one looked up.

Run `python bench/memory_by_time.py [--image NAME] [--rounds N]` with a Docker engine (some minutes). An earlier sandbox
looks up names that do not exist; a later one of the same image times each of these and as many others, in random order.
It does so from the image itself and from a fresh copy, under the policy for strangers: no counter can be read.

Bits are the information of one look-up about whether its name was looked up before: the mutual information of that
fact, true for every other name, and of the time, sorted into ten classes. The classes are made with half of the
look-ups and counted with the other half. The result of the same computation for shuffled facts is printed beside it: it
is the value for no information. A vote over several names for one fact gives more; the number of look-ups that a fact
then needs, at an error of 1 %, follows from the times: the first of `VOTES` whose median is right in 99 of 100 draws.
"""

import argparse
import json
import secrets
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchestrator import plugins
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.sandboxes.base import Backend, BackendSettings, Image, ImageSource, SandboxSpec

NAMES = 4000
CLASSES = 10
VOTES = (1, 3, 5, 9, 15, 25, 41, 65, 101, 161, 251, 401)
DRAWS = 1000
ERROR = 0.01
STORE = """
import os, sys
mark, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    os.path.exists(f"/usr/share/{mark}-{number}")
"""
MEASURE = """
import json, os, random, sys, time
mark, count = sys.argv[1], int(sys.argv[2])
names = [(f"/usr/share/{mark}-{number}", 1) for number in range(count)]
names += [(f"/usr/share/{mark[::-1]}-{number}", 0) for number in range(count)]
random.shuffle(names)
clock, look, found = time.perf_counter_ns, os.access, []
for name, stored in names:
    begun = clock()
    look(name, 0)
    found.append((clock() - begun, stored))
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The results: medians in microseconds, bits of a look-up, bits for shuffled facts, and look-ups for one fact."""

    where: str
    stored: float
    strange: float
    bits: float
    nothing: float
    needed: int | None


def say(backend: Backend, image: Image, program: str, mark: str) -> bytes:
    """Runs a program in a sandbox and returns its output."""
    words = ("python3", "-c", program, mark, str(NAMES))
    sandbox = backend.start(SandboxSpec(replace(image, command=words), SandboxPolicy(), "bench", "memory"))
    until, heard = time.monotonic() + 120, b""
    while data := sandbox.receive(until):
        heard += data
    sandbox.stop()
    return heard


def measured(backend: Backend, image: Image, later: Image) -> NDArray[np.int64]:
    """Returns look-ups [n, 2]: nanoseconds, and whether another sandbox looked the name up before."""
    mark = secrets.token_hex(8)
    say(backend, image, STORE, mark)
    return np.array(json.loads(say(backend, later, MEASURE, mark)), np.int64)


def bits(looks: NDArray[np.int64], chance: np.random.Generator) -> float:
    """Returns how many bits a look-up gives, counted with the half that did not make the classes."""
    order = chance.permutation(len(looks))
    made, counted = looks[order[::2]], looks[order[1::2]]
    edges = np.quantile(made[:, 0], np.linspace(0, 1, CLASSES + 1)[1:-1])
    table = np.zeros((2, CLASSES))
    np.add.at(table, (counted[:, 1], np.searchsorted(edges, counted[:, 0])), 1.0)
    table /= table.sum()
    apart = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    there = table > 0
    return float((table[there] * np.log2(table[there] / apart[there])).sum())


def needed(looks: NDArray[np.int64], chance: np.random.Generator) -> int | None:
    """Returns how many look-ups reveal one fact with an error of 1 %, None if the largest of `VOTES` is not enough."""
    stored, strange = (looks[looks[:, 1] == kind, 0] for kind in (1, 0))
    line = (np.median(stored) + np.median(strange)) / 2
    for count in VOTES:
        wrong = (np.median(chance.choice(stored, (DRAWS, count)), axis=1) > line).mean()
        wrong += (np.median(chance.choice(strange, (DRAWS, count)), axis=1) <= line).mean()
        if wrong / 2 <= ERROR:
            return count
    return None


def result(where: str, looks: NDArray[np.int64], chance: np.random.Generator) -> Result:
    """Returns the results of some look-ups."""
    stored, strange = (float(np.median(looks[looks[:, 1] == kind, 0])) / 1000 for kind in (1, 0))
    shuffled = np.column_stack([looks[:, 0], chance.permutation(looks[:, 1])])
    return Result(where, stored, strange, bits(looks, chance), bits(shuffled, chance), needed(looks, chance))


def main() -> None:
    """Measures and prints a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--image", default="sparring/base:cpu")
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    backend = plugins.load_plugin("sandboxes", "docker")(BackendSettings(Path(tempfile.gettempdir())))
    image = backend.admit(ImageSource(image=given.image))
    chance = np.random.default_rng(0)
    same = np.concatenate([measured(backend, image, image) for _ in range(given.rounds)])
    copies = []
    for _ in range(given.rounds):
        copied = backend.fresh_copy(image, "bench")
        try:
            copies.append(measured(backend, image, copied))
        finally:
            if copied.rollback is not None:
                copied.rollback()
    print("| later sandbox | look-ups | stored, us | strange, us | bits a look-up | of nothing | look-ups a fact |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for found in (
        result("of the same image", same, chance),
        result("of a fresh copy", np.concatenate(copies), chance),
    ):
        count = f"more than {VOTES[-1]}" if found.needed is None else str(found.needed)
        print(
            f"| {found.where} | {2 * NAMES * given.rounds:,} | {found.stored:.2f} | {found.strange:.2f} | "
            f"{found.bits:.3f} | {found.nothing:.3f} | {count} |"
        )


if __name__ == "__main__":
    main()
