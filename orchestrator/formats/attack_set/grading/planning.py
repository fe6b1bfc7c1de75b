"""Makes grading plans: the plan of a round, and supplements if more raters are needed.

All random choices are drawn from the round's secret, so that nobody can predict a plan and everybody can make it again
after the round.
"""

import hmac
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from math import ceil

import numpy as np
from pydantic import TypeAdapter, ValidationError

from orchestrator.domain.ids import canonical_json, derive_seed
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.grading.assignment import Seat, assign_raters, draw_least_seen, draw_positions
from orchestrator.formats.attack_set.grading.item_order import separate, shortest_length, spread
from orchestrator.formats.attack_set.grading.plan import GradingPlan, ItemKind, PlannedItem, RaterItems
from orchestrator.formats.attack_set.grading.rules import (
    HIDDEN_SHARE,
    MINIMUM_HIDDEN,
    MINIMUM_HIDDEN_VALID,
    MINIMUM_RATERS_PER_PICTURE,
    PRACTICE_ITEMS,
    GradingRules,
)
from orchestrator.formats.attack_set.grading.sheets import GradingTask, RaterId

PLACE = "grading"
"""The place that problems name."""
HIDDEN_KINDS = 3
"""Originals, anchors and repeats."""
_RATER_ID = TypeAdapter(RaterId)


@dataclass(frozen=True, slots=True)
class MoreRaters:
    """A picture of a submission that needs `count` more raters, for one task."""

    submission: str
    position: int
    task: GradingTask
    count: int
    appeal: bool = False


@dataclass(frozen=True, slots=True)
class _Draft:
    """An item before its token is drawn."""

    task: GradingTask
    kind: ItemKind
    position: int
    submission: str | None = None
    practice: bool = False
    appeal: bool = False


def plan_problems(
    rules: GradingRules, submissions: Sequence[str], picture_count: int, raters: Sequence[str]
) -> list[Problem]:
    """Returns every reason why such a plan cannot be made, none if it can. It needs no secret."""
    problems = []
    wanted = _wanted(rules, picture_count)
    if not submissions or len({*submissions}) < len(submissions):
        problems.append(
            Problem(
                f"{PLACE}.submissions", "no submission is named, or one is named twice", "name each submission once"
            )
        )
    if len({*raters}) < len(raters):
        twice = sorted(rater for rater, count in Counter(raters).items() if count > 1)
        problems.append(Problem(f"{PLACE}.raters", f"named twice: {', '.join(twice)}", "name each rater once"))
    problems += [_rater_problem(rater) for rater in raters if not _is_rater(rater)]
    if len({*raters}) < rules.raters_per_picture:
        what = f"{len({*raters})} raters are named, and each picture needs {rules.raters_per_picture}"
        problems.append(Problem(f"{PLACE}.raters", what, "add raters"))
    problems += sample_problems(rules, picture_count)
    if picture_count >= wanted and wanted * rules.raters_per_picture < len(raters):
        what = f"{wanted} pictures with {rules.raters_per_picture} raters each are too few for {len(raters)} raters"
        problems.append(Problem(f"{PLACE}.pictures", what, "grade more pictures, or name fewer raters"))
    return problems


def sample_problems(rules: GradingRules, picture_count: int) -> list[Problem]:
    """Returns every reason why no plan can be made for a task of so many pictures, for any submissions and raters."""
    problems = []
    wanted = _wanted(rules, picture_count)
    if wanted > picture_count:
        what = f"{wanted} pictures are to be graded, and the task has {picture_count}"
        problems.append(Problem(f"{PLACE}.pictures", what, "write a smaller number, or `all`"))
    if wanted < 2 * (rules.distance + 1):
        what = f"{wanted} pictures are too few to keep {rules.distance} other items between two versions of one"
        problems.append(Problem(f"{PLACE}.distance", what, _distance_remedy(rules.distance)))
    return problems


def make_plan(
    rules: GradingRules, submissions: Sequence[str], picture_count: int, raters: Sequence[str], secret: bytes
) -> GradingPlan:
    """Returns the grading plan of a round; the same arguments give the same plan.

    Raises:
        Rejected: `plan_problems` names something.
    """
    problems = plan_problems(rules, submissions, picture_count, raters)
    if problems:
        raise Rejected("grading plan", problems)
    rng = np.random.default_rng(derive_seed(secret, "grading"))
    positions = draw_positions(picture_count, _wanted(rules, picture_count), rng)
    per_picture = {GradingTask.VALID: MINIMUM_RATERS_PER_PICTURE, GradingTask.QUALITY: rules.raters_per_picture}
    drafts: dict[str, list[_Draft]] = {rater: [] for rater in raters}
    for task, count in per_picture.items():
        for seat in assign_raters(submissions, positions, raters, count, rng):
            drafts[seat[0]].append(_draft(task, seat))
    frame = GradingPlan(
        submissions=tuple(submissions),
        picture_count=picture_count,
        positions=positions,
        raters_per_picture=rules.raters_per_picture,
        distance=rules.distance,
        sheets=(),
    )
    return _with_sheets(frame, drafts, {*raters}, _keyed(secret, "grading tokens"), rng)


def make_supplement(
    plan: GradingPlan,
    earlier: Sequence[GradingPlan],
    requests: Sequence[MoreRaters],
    raters: Sequence[str],
    secret: bytes,
) -> GradingPlan:
    """Returns a plan that asks for further answers about some pictures.

    No rater is asked about the same picture again. Raters who have not seen the picture's original are preferred, then
    those with fewer versions of the picture in this plan. The pictures are mixed with originals and anchors. Raters
    without a sheet in earlier plans grade enough of these for the rule that removes raters.

    Args:
        plan: the plan of the round.
        earlier: all earlier supplements.
        requests: the pictures that need more raters.
        raters: the raters who may be asked; they need not be in the plan.
        secret: the round's secret.

    Raises:
        Rejected: there are too few raters for a picture, or the plan has too few pictures to keep the distance.
    """
    rng = np.random.default_rng(derive_seed(secret, "grading supplement", plan.digest, str(len(earlier))))
    problems = [_rater_problem(rater) for rater in raters if not _is_rater(rater)]
    asked = {(r, i.task, i.submission, i.position) for p in (plan, *earlier) for r, i in p.items()}
    shown = {(r, i.position) for p in (plan, *earlier) for r, i in p.items() if i.task is GradingTask.QUALITY}
    drafts: dict[str, list[_Draft]] = {}
    versions: Counter[tuple[str, GradingTask, int]] = Counter()
    for request in requests:
        about = (request.task, request.submission, request.position)
        free = [rater for rater in raters if (rater, *about) not in asked]
        if len(free) < request.count:
            place = f"{PLACE}.raters: {request.submission}, picture {request.position}, {request.task}"
            what = f"{request.count} more raters are needed, and {len(free)} have not been asked about it"
            problems.append(Problem(place, what, "add raters"))
            continue
        mixed = [free[place] for place in rng.permutation(len(free))]
        mixed.sort(
            key=lambda rater: (
                (rater, request.position) in shown,
                versions[rater, request.task, request.position],
                len(drafts.get(rater, [])),
            )
        )
        for rater in mixed[: request.count]:
            asked.add((rater, *about))
            versions[rater, request.task, request.position] += 1
            draft = _draft(request.task, (rater, request.submission, request.position), appeal=request.appeal)
            drafts.setdefault(rater, []).append(draft)
    if problems:
        raise Rejected("grading supplement", problems)
    frame = GradingPlan(**{**plan.model_dump(exclude={"sheets"}), "supplements": plan.digest, "sheets": ()})
    untested = {*drafts} - {rater for p in (plan, *earlier) for rater in p.raters}
    key = _keyed(secret, "grading tokens", plan.digest, str(len(earlier)))
    return _with_sheets(frame, drafts, untested, key, rng)


def _with_sheets(
    frame: GradingPlan,
    drafts: dict[str, list[_Draft]],
    untested: AbstractSet[str],
    key: bytes,
    rng: np.random.Generator,
) -> GradingPlan:
    """Returns the plan with each rater's items. Raters in `untested` always get hidden items.

    Tokens are derived from `key`, which no other plan has.
    """
    sheets, problems = [], []
    for rater, own in drafts.items():
        order = _rater_order(frame, own, rng, tested=rater not in untested)
        if order is None:
            what = f"no order of {rater}'s items keeps {frame.distance} other items between two versions of a picture"
            problems.append(Problem(f"{PLACE}.distance", what, _distance_remedy(frame.distance)))
            continue
        sheets.append(RaterItems(rater=rater, items=_with_tokens(order, rater, key)))
    if problems:
        raise Rejected("grading plan", problems)
    return GradingPlan(**{**frame.model_dump(), "sheets": tuple(sheets)})


def _rater_order(
    frame: GradingPlan, own: Sequence[_Draft], rng: np.random.Generator, *, tested: bool
) -> list[_Draft] | None:
    """Returns all items of a rater in order, task by task: validity first, which is asked without originals.

    Each task begins with practice. None if the distance cannot be kept.
    """
    order: list[_Draft] = []
    for task in GradingTask:
        real = [draft for draft in own if draft.task is task]
        if not real and (tested or task is GradingTask.VALID):
            continue
        for make in (_practice, _questions):
            before = [draft.position for draft in order[-frame.distance :]]
            part = make(task, real, frame, before, rng)
            if part is None:
                return None
            order += part
    return order


def _practice(
    task: GradingTask, real: Sequence[_Draft], frame: GradingPlan, before: Sequence[int], rng: np.random.Generator
) -> list[_Draft] | None:
    """Returns the practice items: alternately originals and anchors, of ungraded pictures if there are enough.

    None if the distance cannot be kept.
    """
    others = sorted({*range(frame.picture_count)} - {*frame.positions})
    positions = others if len(others) >= PRACTICE_ITEMS + frame.distance else frame.positions
    fresh = [position for position in positions if position not in before]
    drawn = draw_least_seen(fresh, PRACTICE_ITEMS, Counter(draft.position for draft in real), rng)
    kinds = [ItemKind.ORIGINAL, ItemKind.ANCHOR]
    items = [_Draft(task, kinds[i % 2], position, practice=True) for i, position in enumerate(drawn)]
    return separate(items, lambda draft: draft.position, frame.distance, before, rng)


def _questions(
    task: GradingTask, real: Sequence[_Draft], frame: GradingPlan, before: Sequence[int], rng: np.random.Generator
) -> list[_Draft] | None:
    """Returns a rater's pictures of one task mixed with hidden items, in order; None if the distance cannot be kept.

    If there is no order because of the items `before`, it tries again with more hidden items. In a plan with 2
    (distance + 1) pictures or more this succeeds: finally every picture is equally frequent, and then there is an
    order.
    """
    for more in range(frame.distance + 2):
        items = _hidden_among(task, real, frame, before, rng, more)
        order = separate(items, lambda draft: draft.position, frame.distance, before, rng)
        if order is not None:
            return order
    return None


def _hidden_among(
    task: GradingTask,
    real: Sequence[_Draft],
    frame: GradingPlan,
    before: Sequence[int],
    rng: np.random.Generator,
    more: int,
) -> list[_Draft]:
    """Returns a rater's pictures of one task, mixed with originals, anchors and repeats.

    `more` is how many originals, and how many anchors, it adds to those needed to keep versions of a picture apart.
    """
    each = ceil(len(real) * HIDDEN_SHARE / (1 - HIDDEN_SHARE) / HIDDEN_KINDS)
    minimum = MINIMUM_HIDDEN if task is GradingTask.QUALITY else MINIMUM_HIDDEN_VALID
    # If a picture comes twice, the list has to be long enough to keep the two apart.
    count = max(minimum, each, ceil((2 * (frame.distance + 1) - len(real)) / 2))
    seen = Counter([*before, *(draft.position for draft in real)])
    mixed = [real[place] for place in rng.permutation(len(real))]
    repeats = sorted(mixed, key=lambda draft: seen[draft.position])[:each]
    # A list that is still too short gets no repeats.
    if len(real) + 2 * count < 3 * (frame.distance + 1) or _items_lacking([*real, *repeats], frame) > 2 * count:
        repeats = []
    seen.update(draft.position for draft in repeats)
    hidden = {
        kind: [_Draft(task, kind, position) for position in draw_least_seen(frame.positions, count, seen, rng)]
        for kind in (ItemKind.ORIGINAL, ItemKind.ANCHOR)
    }
    # If a picture comes more often, add hidden items, each of a picture that is seen least.
    lacking = _items_lacking([*real, *repeats, *chain(*hidden.values())], frame)
    for _ in range(ceil(lacking / 2) + more):
        for kind, own in hidden.items():
            own += [_Draft(task, kind, position) for position in draw_least_seen(frame.positions, 1, seen, rng)]
    by_submission: dict[str | None, list[_Draft]] = {}
    for draft in real:
        by_submission.setdefault(draft.submission, []).append(draft)
    return spread([*by_submission.values(), repeats, *hidden.values()], rng)


def _items_lacking(items: Sequence[_Draft], frame: GradingPlan) -> int:
    """Returns how many more items, of other pictures, are needed to keep the distance."""
    return max(0, shortest_length([draft.position for draft in items], frame.distance) - len(items))


def _with_tokens(order: Sequence[_Draft], rater: str, key: bytes) -> tuple[PlannedItem, ...]:
    """Returns the items with their tokens. Of two equal items, the later one is a repeat of the earlier."""
    first: dict[_Draft, str] = {}
    items = []
    for number, draft in enumerate(order):
        token = _keyed(key, rater, str(number)).hex()[:16]
        earlier = first.setdefault(draft, token) if draft.kind is ItemKind.SUBMISSION else token
        items.append(
            PlannedItem(
                token=token,
                task=draft.task,
                kind=draft.kind,
                position=draft.position,
                submission=draft.submission,
                practice=draft.practice,
                repeat_of=None if earlier == token else earlier,
                appeal=draft.appeal,
            )
        )
    return tuple(items)


def _keyed(key: bytes, *parts: str) -> bytes:
    """Returns 32 bytes that only the holder of the key can predict."""
    return hmac.digest(key, canonical_json(parts).encode(), "sha256")


def _draft(task: GradingTask, seat: Seat, *, appeal: bool = False) -> _Draft:
    _, submission, position = seat
    return _Draft(task, ItemKind.SUBMISSION, position, submission, appeal=appeal)


def _distance_remedy(distance: int) -> str:
    return f"grade {2 * (distance + 1)} pictures or more, or lower {PLACE}.distance"


def _wanted(rules: GradingRules, picture_count: int) -> int:
    return picture_count if rules.pictures == "all" else rules.pictures


def _is_rater(rater: str) -> bool:
    try:
        _RATER_ID.validate_python(rater)
    except ValidationError:
        return False
    return True


def _rater_problem(rater: str) -> Problem:
    remedy = "write 1 to 40 of the characters a-z, 0-9 and -, the first of them not -"
    return Problem(f"{PLACE}.raters", f"{rater!r} is not an id of a rater", remedy)
