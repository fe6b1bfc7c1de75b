"""Reads the replays of a round from its ledger: a defence's play, the sessions to play next, verdicts and findings.

Execution plays the sessions; the results and `sparring replay` derive the same from the ledger alone. Nothing here
starts a sandbox.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.findings import RULES_BY_KIND, Disagreement, Finding, FindingKind, SequenceQuestion
from orchestrator.domain.ids import JobId, canonical_json, derive_seed, digest, job_id
from orchestrator.domain.outcomes import NOT_PLAYED, Forfeit
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import GaveUp, StoreFault
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.replay_session import DefencePlay, ReplaySession, SessionAnswers, SessionGenerator
from orchestrator.ledger.read_model import RoundView

if TYPE_CHECKING:
    from orchestrator.integrity.determinism_check import Accusation, DeterminismVerdict
    from orchestrator.integrity.planned_replays import Mismatch

StepsByNumber = Mapping[int, events.StepFinished]
RepeatedStep = tuple[events.StepFinished, events.StepFinished, events.StepFinished]

MAX_SHOWN = 8
"""The most questions of a sequence, and the most disagreements, that a finding shows."""

_KIND_SENTENCES = {
    FindingKind.CHANCE: "answers the same picture differently within one sandbox, in no order that repeats",
    FindingKind.STATE: "answers by what it was asked before",
    FindingKind.MEMORY: "answers an attacked picture differently once it has seen another version of it",
    FindingKind.COMPANY: "answers by the other pictures of the same question, or by the place among them",
    FindingKind.ENVIRONMENT: "answers differently from sandbox to sandbox, or when asked on another occasion",
    FindingKind.CLOCK: "answers by the time that passed",
    FindingKind.REFUSED: "answered in play and ended, broke the protocol or stalled when asked again",
    FindingKind.QUERIES: "answers queries differently than the same questions in a fresh sandbox",
    FindingKind.INCONSISTENT: "decides differently more often than any device may, for no reason that could be told",
}


@dataclass(frozen=True)
class CheckParameters:
    """The parameters of a determinism check: the contest's replay design, how play asked, and the round's secret."""

    design: SamplingDesign
    isolation: Isolation
    batch: int
    secret: bytes


def answers_digest(view: RoundView) -> str:
    """Returns one digest of all answers of the play, which does not depend on the order in which jobs ended."""
    with_blobs = [
        [step.submission, [cell.attack or "" for cell in step.cells], step.step, step.blobs]
        for steps in view.finished_steps(Stage.CLASSIFY)
        for step in steps
    ]
    return digest(canonical_json(sorted(with_blobs, key=lambda entry: entry[:3])))


def defence_play(view: RoundView, job: Job, parameters: CheckParameters) -> DefencePlay:
    """Returns the play that a replay job checks, as the defence's sandboxes saw it.

    Pictures that were not played are left out, because no sandbox saw them.
    """
    cells: list[Cell] = [Cell(job.submission)]
    sandboxes: list[NDArray[np.int32]] = []
    uncharged = 0
    for steps in view.finished_steps(Stage.CLASSIFY, job.submission):
        if not any(Cell(cell.defence, cell.attack) in job.cells for cell in steps[0].cells):
            continue
        parts: list[NDArray[np.int32]] = []
        latest = 0
        for step in steps:
            uncharged += sum(f.question_pictures - f.pictures for f in step.faults if f.code != GaveUp.code)
            named = [Cell(cell.defence, cell.attack) for cell in step.cells]
            cells += [cell for cell in named if cell not in cells]
            rows = view.read_array(step, "rows").copy()
            positions = np.array([cells.index(cell) for cell in named], np.int32)
            rows[:, 0] = positions[rows[:, 0]] if len(rows) else 0
            rows[:, 3] += latest + step.fresh  # a step that is not fresh begins in the sandbox of the step before
            latest = int(rows[-1, 3]) if len(rows) else latest
            parts.append(rows)
        rows = np.concatenate(parts)
        rows = rows[rows[:, 2] != NOT_PLAYED]
        split = np.split(rows[:, :3], np.flatnonzero(np.diff(rows[:, 3])) + 1)
        sandboxes += [part for part in split if len(part)]
    count = view.round.opening.task.count if view.round.opening else 0
    mixed = parameters.isolation is Isolation.ROUND
    return DefencePlay(
        tuple(cells), tuple(sandboxes), count, parameters.batch, mixes_versions=mixed, uncharged_pictures=uncharged
    )


def prepare_check(
    view: RoundView, job: Job, parameters: CheckParameters
) -> tuple[DefencePlay, "SessionGenerator[DeterminismVerdict]"]:
    """Returns the play that a replay job checks, and the check's generator, which is not started yet."""
    from orchestrator.integrity.determinism_check import check_determinism  # noqa: PLC0415  the drivers of other jobs start without it

    play = defence_play(view, job, parameters)
    seed = derive_seed(parameters.secret, "replay", view.round.answers_digest or "", *job.seed_parts)
    return play, check_determinism(play, parameters.design, np.random.default_rng(seed))


def session_answers(view: RoundView, step: events.StepFinished, session: ReplaySession) -> SessionAnswers:
    """Returns the recorded answers of a session. Raises StoreFault if the step recorded another session."""
    rows = view.read_array(step, "rows")
    if not np.array_equal(rows[:, :2], session.questions):
        raise StoreFault(f"step {step.step} of replay {step.job} holds other questions than this software would ask")
    return SessionAnswers(rows[:, 2], *(view.read_array(step, name) for name in ("margins", "at", "refused", "late")))


def verdict_on_record(
    view: RoundView, job: Job, parameters: CheckParameters
) -> tuple[DefencePlay, "DeterminismVerdict"]:
    """Returns the play and the verdict on a defence from the recorded steps. Raises StoreFault if some are missing."""
    play, sessions = prepare_check(view, job, parameters)
    steps = view.steps(job.id)
    try:
        session = next(sessions)
        for number in range(len(steps) + 1):
            if number not in steps:
                raise StoreFault(f"step {number} of replay {job.id} is not on record")
            session = sessions.send(session_answers(view, steps[number], session))
    except StopIteration as end:
        result: DeterminismVerdict = end.value
        return play, result
    raise StoreFault(f"replay {job.id} has no end on record")


def verdict_event(job: Job, verdict: "DeterminismVerdict") -> events.ReplayJudged:
    """Returns the ledger event of what a replay job covered."""
    return events.ReplayJudged(submission=job.submission, job=job.id, **asdict(verdict.coverage))


def finding_event(finding: Finding) -> events.FindingMade:
    """Returns the ledger event of a finding."""
    body = asdict(finding)
    return events.FindingMade(**body | {"finding": body.pop("kind")})


def make_finding(job: Job, image: str, play: DefencePlay, verdict: "DeterminismVerdict") -> Finding | None:
    """Returns the finding of a verdict, or None if the defence is not accused."""
    accusation = verdict.accusation
    if accusation is None:
        return None
    sequence, length, alone, batch = _sequence(play, verdict, accusation)
    mismatches = verdict.mismatches[:MAX_SHOWN]
    return Finding(
        id=job_id(finding=job.submission, job=job.id, kind=accusation.kind)[:8],
        submission=job.submission,
        kind=accusation.kind,
        rules=RULES_BY_KIND[accusation.kind],
        summary=_summary(verdict, accusation, sequence, length, alone),
        compared=verdict.coverage.compared,
        disagreements=tuple(_disagreement(play, mismatch) for mismatch in mismatches),
        image=image,
        job=job.id,
        steps=accusation.sessions,
        sequence=sequence,
        length=length,
        batch=batch,
        answer_alone=alone,
        p_value=accusation.p_value,
    )


def attack_differs(view: RoundView, attack: str, steps: StepsByNumber) -> bool:
    """Returns whether an attack made different pictures than in play when it was first asked again."""
    pairs = zip(_first_sandbox_steps(_attack_play(view, attack)), _first_sandbox_steps(_passes(steps)[0]), strict=False)
    return any(changed_pictures(view, play, step).any() for play, step in pairs)


def repeated_steps(view: RoundView, attack: str, job: JobId) -> list[RepeatedStep]:
    """Returns, batch by batch, an attack's step in play and the two steps in which it was asked the same again.

    Only the batches that one sandbox played from its start each time count: an attack's answers may depend on earlier
    questions.
    """
    passes = (_attack_play(view, attack), *_passes(view.steps(job)))
    return list(zip(*map(_first_sandbox_steps, passes), strict=False))


def make_attack_finding(view: RoundView, job: Job, image: str) -> Finding | None:
    """Returns the finding against an attack that twice made different pictures from the same seed and questions.

    An attack is asked again the second time only if the first time differed; without the second, nothing is confirmed.
    """
    batches = repeated_steps(view, job.submission, job.id)
    counts = [sum(int(changed_pictures(view, batch[0], batch[turn]).sum()) for batch in batches) for turn in (1, 2)]
    if not all(counts):
        return None
    steady = all(one.blobs["candidates"] == two.blobs["candidates"] for _, one, two in batches)
    kind = FindingKind.ENVIRONMENT if steady else FindingKind.CHANCE
    compared = sum(len(view.read_array(one, "index")) for _, one, _ in batches)
    return Finding(
        id=job_id(finding=job.submission, job=job.id, kind=kind)[:8],
        submission=job.submission,
        kind=kind,
        rules=("X3",),
        summary=f"makes other pictures from the same seed and questions: {counts[0]} of {compared} pictures differ",
        compared=compared,
        disagreements=(),
        image=image,
        job=job.id,
        steps=tuple(sorted(view.steps(job.id))),
    )


def changed_pictures(view: RoundView, play: events.StepFinished, step: events.StepFinished) -> NDArray[np.bool_]:
    """Returns a mask of a step's pictures that differ from play; pictures missing on either side are not compared."""
    if play.blobs["index"] != step.blobs["index"]:
        raise StoreFault(f"step {step.step} of replay {step.job} holds other questions than the play")
    then, repeated = view.step_examples(play), view.step_examples(step)
    both = (repeated.forfeits != Forfeit.MISSING) & (then.forfeits != Forfeit.MISSING)
    other = (repeated.pixels != then.pixels).reshape(len(both), -1).any(axis=1)
    changed: NDArray[np.bool_] = both & other
    return changed


def _attack_play(view: RoundView, attack: str) -> list[events.StepFinished]:
    return [step for steps in view.finished_steps(Stage.PERTURB, attack) for step in steps]


def _passes(steps: StepsByNumber) -> tuple[list[events.StepFinished], list[events.StepFinished]]:
    """Returns the steps in which an attack was asked again the first time, and those of the second time."""
    passes: tuple[list[events.StepFinished], list[events.StepFinished]] = ([], [])
    seen: set[str] = set()
    for number in sorted(steps):
        index = steps[number].blobs["index"]
        passes[index in seen].append(steps[number])
        seen.add(index)
    return passes


def _first_sandbox_steps(steps: Sequence[events.StepFinished]) -> list[events.StepFinished]:
    """Returns the first steps, up to the last one that the first sandbox played."""
    return list(itertools.takewhile(lambda step: step is steps[0] or not step.fresh, steps))


def _sequence(
    play: DefencePlay, verdict: "DeterminismVerdict", accusation: "Accusation"
) -> tuple[tuple[SequenceQuestion, ...], int, int | None, int]:
    """Returns a proof's sequence, shortened to its ends, its length, the suspect's answer alone, and the batch."""
    proof = accusation.proof
    if proof is None:
        return (), 0, None, play.batch
    session = proof.session
    _, answers = verdict.trace.sessions[proof.sessions[-1]]
    length = proof.position + 1 if session.batch == 1 else len(session.questions)
    places = range(length) if length <= MAX_SHOWN else [*range(MAX_SHOWN // 2), *range(length - MAX_SHOWN // 2, length)]
    sequence = tuple(
        SequenceQuestion(
            attack=play.cells[int(session.questions[place, 0])].attack,
            picture=int(session.questions[place, 1]),
            answer=int(answers.answers[place]),
            pause=float(session.pauses.get(place, 0.0)),
        )
        for place in places
    )
    return sequence, length, proof.answer_alone, session.batch


def _summary(
    verdict: "DeterminismVerdict",
    accusation: "Accusation",
    sequence: tuple[SequenceQuestion, ...],
    length: int,
    alone: int | None,
) -> str:
    mismatches = len(verdict.mismatches)
    text = f"{_KIND_SENTENCES[accusation.kind]}: {mismatches} of {verdict.coverage.compared} comparisons disagree"
    if accusation.proof is not None and sequence:
        last = sequence[-1]
        after = f"after {length - 1} questions" if length > 1 else f"after {last.pause:.1f} s of silence"
        text += (
            f"; one picture is {alone} alone and {answer_in_sequence(verdict, accusation)} {after}, each of "
            f"{len(accusation.sessions) // 2} times that both were tried with one seed"
        )
    elif accusation.p_value is not None:
        text += f"; an honest defence shows as much with a probability below {max(accusation.p_value, 1e-12):.1g}"
    return text


def answer_in_sequence(verdict: "DeterminismVerdict", accusation: "Accusation") -> int:
    """Returns the suspect's answer in the sequence of a proof."""
    if accusation.proof is None:
        raise ValueError("no sequence proves this accusation")
    _, answers = verdict.trace.sessions[accusation.proof.sessions[-1]]
    return int(answers.answers[accusation.proof.position])


def _disagreement(play: DefencePlay, mismatch: "Mismatch") -> Disagreement:
    margin = None if np.isnan(mismatch.margin) else round(mismatch.margin, 9)
    return Disagreement(play.cells[mismatch.cell].attack, mismatch.picture, mismatch.first, mismatch.second, margin)
