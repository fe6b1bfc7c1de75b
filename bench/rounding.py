"""Measures the effect of rounding queries to bytes on SPSA and the boundary attack (rule B2).

    python bench/rounding.py [--pictures 100] [--json]

The warm-up of 2018 sent floats to its model. A defence here gets bytes, so the attacks' queries are rounded when they
are sent, and so are the judged pictures. Both ways are played on the classifier and the digits of
bench/boundary_truth.py, with the same random numbers, in this process. The strengths are chosen so that about half of
the pictures hold, where a difference is most visible. `different` is the number of pictures on which only one of the
two ways succeeded.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from boundary_foolbox import Classifier
from boundary_truth import SEED, make_task

from orchestrator.formats.warmup.attacks.base import Attack, play_attacks, predicted_classes, to_floats, to_pixels
from orchestrator.formats.warmup.attacks.boundary import Boundary
from orchestrator.formats.warmup.attacks.spsa import Spsa

ITERATIONS = 500
"""The iterations of the boundary attack."""


def main() -> int:
    """Plays and prints."""
    asked = _arguments()
    rows = [compare(name, make, asked.pictures) for name, make in ATTACKS.items()]
    if asked.json:
        print(json.dumps({"pictures": asked.pictures, "rows": rows}, indent=2))
        return 0
    print("| attack | holds, rounded | holds, in floats | different |\n| --- | --- | --- | --- |")
    for row in rows:
        print("| {attack} | {rounded} | {floats} | {different} |".format(**row))
    return 0


def compare(name: str, make: Callable[[NDArray[np.float32]], Attack], count: int) -> dict[str, Any]:
    """Returns how many pictures hold against an attack, which `make` returns for a start picture."""
    rounded, floats = (_held(make, count, rounds=rounds) for rounds in (True, False))
    return {
        "attack": name,
        "rounded": int(rounded.sum()),
        "floats": int(floats.sum()),
        "different": int((rounded != floats).sum()),
    }


def _held(make: Callable[[NDArray[np.float32]], Attack], count: int, *, rounds: bool) -> NDArray[np.bool_]:
    task = make_task("early", range(count))
    classifier = Classifier(task["prototypes"], task["prototype_classes"], task["width"])

    def ask(pictures: NDArray[np.float32]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = classifier.batch_predictions(
            to_floats(to_pixels(pictures)) if rounds else pictures
        )
        return scores

    attacks = (
        make(start).attack(picture, int(label), np.random.default_rng([SEED, number]))
        for number, (picture, label, start) in enumerate(
            zip(task["pictures"], task["labels"], task["starts"], strict=True)
        )
    )
    judged = np.empty_like(task["pictures"])
    for finished in play_attacks(attacks, lambda asked, _: ask(asked), 25):
        judged[finished.number] = finished.result.picture
    held: NDArray[np.bool_] = predicted_classes(ask(judged)) == task["labels"]
    return held


ATTACKS: dict[str, Callable[[NDArray[np.float32]], Attack]] = {
    "spsa, delta 0.01": lambda _: Spsa(epsilon=EPSILON, delta=0.01),
    "spsa, delta 3/255": lambda _: Spsa(epsilon=EPSILON, delta=3 / 255),
    "boundary": lambda start: Boundary(DISTANCE, (start[None], start[None]), iterations=ITERATIONS),
}
EPSILON, DISTANCE = 69 / 255, 4.7
"""The largest change of a value, and the Euclidean length of a change."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
