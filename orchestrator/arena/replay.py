"""The first replay check (rules A9, A10): some pictures again in a fresh sandbox, in another order, and some twice.

One sandbox sees at most one version of each picture here too, so a replay cannot be told from play by what is shown.
A different answer in the fresh sandbox that stays there when asked again is state; one that changes within the sandbox
is chance. Faults are no decisions and are never compared. A disagreeing picture is always asked again before anybody is
accused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.findings import Disagreement, Finding, FindingKind
from orchestrator.domain.ids import job_id
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import FAULTED, NOT_ASKED, Answers


@dataclass(frozen=True)
class Choice:
    """What is replayed, in the order in which it is asked: rows [k, 2] of cell position and picture."""

    cells: tuple[Cell, ...]
    rows: NDArray[np.int32]
    played: NDArray[np.int32]


def choose(cells: tuple[Cell, ...], answers: Mapping[Cell, Answers], share: float, seed: int) -> Choice:
    """Returns a share of the pictures, each in one of the cells where the defence was asked, in a secret order."""
    chance = np.random.default_rng(seed)
    table = np.stack([answers[cell] for cell in cells])
    count = table.shape[1]
    pictures = chance.permutation(count)[: max(1, round(share * count))]
    rows = []
    for picture in pictures:
        possible = np.flatnonzero(table[:, picture] != NOT_ASKED)
        if len(possible):
            rows.append((int(chance.choice(possible)), int(picture)))
    chosen = np.array(rows, np.int32).reshape(-1, 2)
    return Choice(cells, chosen, table[chosen[:, 0], chosen[:, 1]])


def disagree(played: NDArray[np.int32], replayed: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Returns where two decisions differ; a fault on either side is no decision."""
    differs: NDArray[np.bool_] = (played != replayed) & (played != FAULTED) & (replayed != FAULTED)
    return differs


def again(choice: Choice, replayed: NDArray[np.int32], repeats: int) -> NDArray[np.int64]:
    """Returns the positions to ask once more: every disagreement, and the first `repeats` others."""
    differs = disagree(choice.played, replayed)
    return np.concatenate([np.flatnonzero(differs), np.flatnonzero(~differs)[:repeats]])


def findings(defence: str, cells: tuple[Cell, ...], rows: NDArray[np.int32]) -> list[Finding]:
    """Returns what replay rows [k, 5] (cell, picture, played, replayed, repeated) prove: nothing, or one finding."""
    played, replayed, repeated = rows[:, 2], rows[:, 3], rows[:, 4]
    asked_twice = repeated != NOT_ASKED
    chance = asked_twice & disagree(replayed, repeated)
    state = disagree(played, replayed) & ~chance
    guilty = chance | state
    if not guilty.any():
        return []
    kind = FindingKind.CHANCE if chance.any() else FindingKind.STATE
    shown = rows[guilty]
    disagreements = tuple(
        Disagreement(cells[c].attack, int(p), int(a), int(b), None if again == NOT_ASKED else int(again))
        for c, p, a, b, again in shown
    )
    what = {
        FindingKind.CHANCE: "answered the same picture differently within one sandbox",
        FindingKind.STATE: "answered the same picture differently in a fresh sandbox and another order",
    }[kind]
    compared = int(((played != FAULTED) & (replayed != FAULTED)).sum())
    return [
        Finding(
            id=job_id(finding=defence, rows=shown.tolist())[:8],
            submission=defence,
            kind=kind,
            rules=("A10",) if kind is FindingKind.CHANCE else ("A9", "A10"),
            summary=f"{what}: {len(shown)} of {compared} replayed pictures",
            compared=compared,
            disagreements=disagreements,
        )
    ]
