"""The smallest pieces of a job: one question to an attack, a run of questions to a defence.

Each function plays one step with the player at hand and returns what came of it. A submission's fault is part of the
outcome; an infrastructure fault is raised and the whole step is played again with its full limit (rules A15, X1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.arena.casting import Casting
from orchestrator.arena.gate import Gate
from orchestrator.arena.setting import Clock
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.rulings import ABSTAINED, FAULTED, Forfeit
from orchestrator.domain.samples import Candidates, Labels, Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import ProtocolFault, SubmissionFault


@dataclass(eq=False)
class Asked:
    """What a run of questions to a defence gave: an answer each (int32), its faults, and its seconds of work."""

    answers: NDArray[np.int32]
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(eq=False)
class Perturbed:
    """What one question to an attack gave."""

    candidates: Candidates
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0


def perturb(
    casting: Casting, gate: Gate, limits: Limits, pixels: Pixels, labels: Labels | None, clock: Clock
) -> Perturbed:
    """Asks the attack at hand for candidates for `pixels` [n, c, h, w]; what arrives in time counts (A15)."""
    step = Perturbed(gate.nothing(pixels))
    truth = None if labels is None else [int(label) for label in labels]
    began = clock()
    try:
        player = casting.player()
        began = clock()
        for delivered in player.perturb(pixels, truth, limits):
            gate.admit(step.candidates, pixels, delivered.index, delivered.pixels)
    except SubmissionFault as fault:
        step.seconds = clock() - began
        casting.replace(fault)
        missing = int((step.candidates.forfeits == Forfeit.MISSING).sum())
        step.faults.append(record(fault, missing))
    else:
        step.seconds = clock() - began
    return step


def ask(casting: Casting, limits: Limits, pictures: Sequence[Pixels], clock: Clock, *, fresh: bool = False) -> Asked:
    """Asks the defence at hand about each picture [c, h, w], `classify_batch` at a time, and notes its answers.

    `fresh` gives every question a sandbox of its own (isolation `picture`).
    """
    outcome = Asked(np.full(len(pictures), FAULTED, np.int32))
    for start in range(0, len(pictures), limits.classify_batch):
        batch = np.stack(pictures[start : start + limits.classify_batch])
        began = clock()
        try:
            player = casting.player()
            if fresh and start + len(batch) < len(pictures):
                casting.prepare()
            began = clock()
            labels = player.classify(batch, limits)
        except SubmissionFault as fault:
            outcome.seconds += clock() - began
            casting.replace(fault)
            outcome.faults.append(record(fault, len(batch)))
            continue
        outcome.seconds += clock() - began
        outcome.answers[start : start + len(batch)] = [ABSTAINED if label is None else label for label in labels]
        if fresh:
            casting.retire()
    return outcome


def record(fault: SubmissionFault, pictures: int) -> FaultRecord:
    """Returns a submission's fault as the ledger keeps it."""
    reason = fault.reason if isinstance(fault, ProtocolFault) else ""
    return FaultRecord(code=fault.code, reason=reason, message=printable(str(fault)), pictures=pictures)
