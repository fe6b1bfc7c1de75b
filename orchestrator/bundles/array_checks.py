"""Checks that the arrays of a full bundle are possible for a round: every picture once, no answer missing.

A picture that was not asked about counts as held, so somebody who leaves out answers could make a defence look better.
Every honest round passes these checks; none of them relies on a statement of the organizers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.access import Transcript
from orchestrator.domain.contest_format import PlayRules
from orchestrator.domain.ids import digest
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, NOT_ASKED, NOT_PLAYED, Forfeit, OnViolation
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.queries import QueryFailure
from orchestrator.domain.query_transcript import TRANSCRIPT_ARRAYS, FullTranscript
from orchestrator.domain.samples import AdversarialExamples, Samples
from orchestrator.domain.submissions import Side, Submission
from orchestrator.domain.tasks import Budget
from orchestrator.errors import GaveUp, NotGenuine
from orchestrator.execution.attack_output_gate import question_mask
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import array_digest
from orchestrator.measures import norms

_ATTACK_ARRAYS = {"index": ("iu", 1), "forfeits": ("u", 1), "violations": ("b", 1), "distances": ("f", 1)}
"""The kinds of dtypes and the number of axes of an attack's arrays."""
_QUERY_ARRAYS = {"queries": "i", "fooled_at": "i", "failures": "u", "given_up": "b"}
"""The kinds of dtypes of the arrays about an attack's queries."""


def check_arrays(record: RoundView, place: str, rules: PlayRules) -> None:
    """Raises NotGenuine, naming step or cell, if the arrays of a round are impossible."""
    samples = record.samples
    _check_labels(samples, record, place)
    count = len(samples)
    examples = {}
    for attack in record.round.roster.by_side(Side.ATTACK):
        steps = [step for job in record.finished_steps(Stage.PERTURB, attack.id) for step in job]
        if steps:
            _check_attack(record, steps, count, f"{place} attack {attack.id}", rules.on_violation)
            examples[attack.id] = record.adversarial_examples(attack.id)
    for cell in record.queried_cells():
        _check_queries(record, cell, count, f"{place} attack {cell.attack} on {cell.defence}", rules.on_violation)
    for defence in record.round.roster.by_side(Side.DEFENCE):
        _check_defence(record, defence.id, count, examples, rules, place)


def check_pictures(record: RoundView, place: str) -> None:
    """Raises NotGenuine if the pictures are not the task's, or a candidate's distance is not the stated one."""
    opening, samples = record.round.opening, record.samples
    if opening is None or samples.digest != opening.task.digest:
        raise NotGenuine(f"{place} pictures", "are not those of the task's digest")
    for attack in record.round.roster.by_side(Side.ATTACK):
        examples = record.adversarial_examples(attack.id)
        if examples is None:
            continue
        where = f"{place} attack {attack.id}"
        if examples.pixels.shape != samples.pixels.shape or examples.pixels.dtype != np.uint8:
            raise NotGenuine(where, f"its candidates have the shape {examples.pixels.shape}")
        _check_submitted_pictures(attack, examples, where)
        budget = opening.task.budget()
        if budget is not None:
            _check_distances(samples, examples, where, budget)
        elif not attack.is_pictures:
            raise NotGenuine(where, "made pictures for a task without a budget")
    for cell in record.queried_cells():
        made = record.cell_examples(cell)
        attack = record.round.roster[cell.attack or ""]
        if made is not None and attack.image and (budget := opening.task.budget()) is not None:
            _check_distances(samples, made, f"{place} attack {cell.attack} on {cell.defence}", budget)


def check_transcripts(record: RoundView, place: str) -> None:
    """Raises NotGenuine if the contest keeps full transcripts, and one is missing or does not have its digest."""
    opening = record.round.opening
    if opening is None or opening.contest.get("access", {}).get("transcript") != Transcript.FULL:
        return
    for cell in record.queried_cells():
        if record.round.roster[cell.attack or ""].image:  # there are no transcripts of the organizers' own attacks
            for step in record.query_steps(cell):
                check_transcript(record, step, f"{place} attack {cell.attack} on {cell.defence} step {step.step}")


def check_transcript(record: RoundView, step: events.StepFinished, where: str) -> None:
    """Raises NotGenuine if a step's full transcript is missing or does not have its digest."""
    samples = record.samples
    if missing := [name for name in TRANSCRIPT_ARRAYS if name not in step.blobs]:
        raise NotGenuine(where, f"has no {missing[0]}, and the contest keeps full transcripts")
    arrays = {name: record.read_array(step, name) for name in TRANSCRIPT_ARRAYS}
    answers = record.read_array(step, "replies")[:, 1]
    try:
        transcript = FullTranscript.from_arrays(arrays, samples.shape, len(samples.classes))
    except ValueError as error:
        raise NotGenuine(where, str(error)) from None
    if len(transcript.shown) != len(answers):
        raise NotGenuine(where, f"shows {len(transcript.shown)} pictures and holds {len(answers)} replies")
    if transcript.digest(answers) != step.transcript:
        raise NotGenuine(where, "its pictures, answers and scores are not those of its transcript's digest")


def _check_submitted_pictures(attack: Submission, examples: AdversarialExamples, where: str) -> None:
    """Raises NotGenuine if the judged pictures are not those that were submitted (C2)."""
    unchanged = (examples.forfeits == Forfeit.NONE).all() and not examples.violations.any()
    if attack.is_pictures and unchanged and array_digest(examples.pixels) != attack.pixels:
        raise NotGenuine(where, "its candidates are not the pictures that were submitted")


def _check_distances(samples: Samples, examples: AdversarialExamples, where: str, budget: Budget) -> None:
    counted = examples.forfeits == Forfeit.NONE
    inside, far = norms.judge_candidates(samples.pixels, examples.pixels, budget)
    beyond = counted & ~inside
    as_sent = counted & ~examples.violations  # a clipped candidate is nearer than the delivered one
    other = as_sent & (np.abs(far - examples.distances) > 1e-9 * np.maximum(far, 1))
    for bad, problem in ((beyond, "is beyond the budget and counts (A14)"), (other, "is not as far away as stated")):
        if bad.any():
            raise NotGenuine(f"{where} picture {int(np.argmax(bad))}", problem)


def _check_labels(samples: Samples, record: RoundView, place: str) -> None:
    task = record.round.opening.task if record.round.opening else None
    labels = samples.labels
    if task is None or labels.dtype != np.int64 or labels.shape != (task.count,) or not task.count:
        raise NotGenuine(f"{place} labels", "are not one integer a picture")
    if not ((labels >= 0) & (labels < len(task.classes))).all():
        raise NotGenuine(f"{place} labels", f"are not all among the {len(task.classes)} classes")


def _check_queries(record: RoundView, cell: Cell, count: int, place: str, on_violation: OnViolation) -> None:
    """Checks the arrays of an attack on one defence: the first pictures only, and as many queries as replies."""
    steps = record.query_steps(cell)
    _check_attack(record, steps, count, place, on_violation, some=True)
    for step in steps:
        where = f"{place} step {step.step}"
        index = record.read_array(step, "index")
        arrays = {}
        for name, kinds in _QUERY_ARRAYS.items():
            if name not in step.blobs:
                raise NotGenuine(where, f"has no {name}")
            arrays[name] = record.read_array(step, name)
            if arrays[name].dtype.kind not in kinds or arrays[name].shape != index.shape:
                raise NotGenuine(where, f"its {name} are {arrays[name].dtype} {arrays[name].shape}")
        replies = record.read_array(step, "replies") if "replies" in step.blobs else np.empty(0)
        if replies.dtype != np.int32 or replies.shape[1:] != (3,) or (replies[:, 2] < 1).any():
            raise NotGenuine(where, "its replies are not three integers each: picture, answer, price")
        asked = np.array([replies[replies[:, 0] == picture, 2].sum() for picture in index])
        if not np.array_equal(asked, arrays["queries"]) or not np.isin(replies[:, 0], index).all():
            raise NotGenuine(where, "counts other queries than it holds replies")
        if (arrays["fooled_at"] < 0).any() or (arrays["fooled_at"] > arrays["queries"]).any():
            raise NotGenuine(where, "was fooled by a query that was not asked")
        if arrays["failures"].max(initial=0) > max(QueryFailure):
            raise NotGenuine(where, "has a failure of no known kind")


def _check_attack(
    record: RoundView,
    steps: Iterable[events.StepFinished],
    count: int,
    place: str,
    on_violation: OnViolation,
    *,
    some: bool = False,
) -> None:
    """Checks an attack's arrays. `some`: whether it may have played only the first pictures."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _ATTACK_ARRAYS}
    for step in steps:
        for name, (kinds, axes) in _ATTACK_ARRAYS.items():
            if name not in step.blobs:
                raise NotGenuine(f"{place} step {step.step}", f"has no {name}")
            found = record.read_array(step, name)
            if found.dtype.kind not in kinds or found.ndim != axes:
                raise NotGenuine(f"{place} step {step.step}", f"its {name} are {found.dtype} {found.shape}")
            parts[name].append(found)
        if len({len(each[-1]) for each in parts.values()}) > 1:
            raise NotGenuine(f"{place} step {step.step}", "its arrays are of several lengths")
    index, forfeits, violations, _ = (np.concatenate(part) for part in parts.values())
    if not np.array_equal(np.sort(index), np.arange(len(index) if some else count)) or not 0 < len(index) <= count:
        raise NotGenuine(place, f"its steps do not hold each of the {count} pictures once")
    if forfeits.max(initial=0) > max(Forfeit):
        raise NotGenuine(place, "has a forfeit of no known kind")
    beyond = forfeits == Forfeit.BUDGET
    if (beyond & ~violations).any() or (on_violation is not OnViolation.CLIP and (violations & ~beyond).any()):
        raise NotGenuine(place, "its violations and its forfeits do not agree (A14)")


def _check_defence(
    record: RoundView,
    defence: str,
    count: int,
    examples: Mapping[str, AdversarialExamples | None],
    rules: PlayRules,
    place: str,
) -> None:
    seen: dict[Cell, list[NDArray[np.int32]]] = {}
    for step in (step for job in record.finished_steps(Stage.CLASSIFY, defence) for step in job):
        rows = _checked_rows(record, step, count, rules, f"{place} defence {defence} job {step.job} step {step.step}")
        for position, named in enumerate(step.cells):
            seen.setdefault(Cell(named.defence, named.attack), []).append(rows[rows[:, 0] == position, 1])
    for cell, parts in seen.items():
        where = f"{place} cell {cell.defence} against {cell.attack or 'clean pictures'}"
        queried = record.query_record(cell)
        attack_examples = examples.get(cell.attack or "") if queried is None else record.cell_examples(cell)
        if cell.attack and queried is None and cell.attack not in examples and cell.defence == defence:
            continue  # an attack that left before this round, in a reused job: no board has it
        if cell.defence != defence or (cell.attack and attack_examples is None):
            raise NotGenuine(where, "was answered by somebody else, or for an attack that did not play")
        expected = np.arange(count)
        if attack_examples is not None:
            asked = question_mask(attack_examples.forfeits, rules.on_missing)
            expected = np.flatnonzero(asked if queried is None else asked & (queried.settled_answers() == NOT_ASKED))
        if not np.array_equal(np.sort(np.concatenate(parts)), expected):
            raise NotGenuine(where, "not every picture that had to be asked was answered, once each")


def _checked_rows(
    record: RoundView, step: events.StepFinished, count: int, rules: PlayRules, where: str
) -> NDArray[np.int32]:
    """Returns the rows of one step of a defence, checked: cells and pictures exist, and answers are possible."""
    classes = len(record.samples.classes)
    rows: NDArray[Any] = record.read_array(step, "rows") if "rows" in step.blobs else np.empty(0)
    if rows.dtype != np.int32 or rows.shape[1:] != (4,):
        raise NotGenuine(where, "its rows are not four integers each")
    cells, pictures, answers = rows[:, 0], rows[:, 1], rows[:, 2]
    if not (((cells >= 0) & (cells < len(step.cells))).all() and ((pictures >= 0) & (pictures < count)).all()):
        raise NotGenuine(where, "answers for a cell or a picture that there is not")
    if not _possible_answers(answers, classes, step).all():
        raise NotGenuine(where, "has an answer that is none")
    if ("scores" in step.blobs) != rules.keep_scores:
        raise NotGenuine(where, "its scores are missing" if rules.keep_scores else "has scores, which nobody keeps")
    if rules.keep_scores:
        _check_scores(record.read_array(step, "scores"), answers, classes, where)
    return rows


def _check_scores(scores: NDArray[Any], answers: NDArray[np.int32], classes: int, where: str) -> None:
    if scores.dtype != np.float32 or scores.shape != (len(answers), classes):
        raise NotGenuine(where, f"its scores are {scores.dtype} {scores.shape}")
    missing = np.isnan(scores)
    if (missing.any(axis=1) != missing.all(axis=1)).any() or not missing[np.isin(answers, (FAULTED, NOT_PLAYED))].all():
        raise NotGenuine(where, "has half of a picture's scores, or scores of a picture without an answer")


def _possible_answers(answers: NDArray[np.int32], classes: int, step: events.StepFinished) -> NDArray[np.bool_]:
    """Returns which answers are possible. NOT_PLAYED is, only if a fault of the step says that its job gave up (A7)."""
    gave_up = any(fault.code == GaveUp.code for fault in step.faults)
    silent = (ABSTAINED, FAULTED, *([NOT_PLAYED] if gave_up else []))
    known: NDArray[np.bool_] = ((answers >= 0) & (answers < classes)) | np.isin(answers, silent)
    return known


def check_secret(record: RoundView, secret: bytes, place: str) -> None:
    """Raises NotGenuine if the secret is not the one that the round committed to before play."""
    opening = record.round.opening
    if opening is None or digest(secret) != opening.commitment:
        raise NotGenuine(place, "is not the secret whose hash was recorded before play")
