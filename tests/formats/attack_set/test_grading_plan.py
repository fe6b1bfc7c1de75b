"""The grading plan: who is shown what, how evenly, how far apart, and when it is refused (C7)."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import Rejected
from orchestrator.formats.attack_set.grading.anchors import distort
from orchestrator.formats.attack_set.grading.item_order import separate, shortest_length
from orchestrator.formats.attack_set.grading.plan import GradingPlan, ItemKind
from orchestrator.formats.attack_set.grading.planning import MoreRaters, make_plan, make_supplement, plan_problems
from orchestrator.formats.attack_set.grading.rules import PRACTICE_ITEMS, GradingRules
from orchestrator.formats.attack_set.grading.sheet_making import SheetHeading, sheet_for
from orchestrator.formats.attack_set.grading.sheets import GradingTask

TEAMS = ("ants", "bees", "cats", "dogs")
SECRET = b"drawn after the close"


def raters(count):
    """Returns so many ids."""
    return [f"rater-{number}" for number in range(count)]


def bodies(plan):
    """Yields each rater with the items of each task, practice left out."""
    for rater in plan.raters:
        for task in GradingTask:
            yield rater, [item for item in plan.items_of(rater) if item.task is task and not item.practice]


def assert_apart(plan):
    """Asserts that at least `distance` others lie between any two versions of a picture, across tasks too."""
    for rater in plan.raters:
        last = {}
        for place, item in enumerate(plan.items_of(rater)):
            assert place - last.get(item.position, -1000) > plan.distance, (rater, place)
            last[item.position] = place


@pytest.fixture(scope="module")
def plan():
    """Four submissions, 60 of 200 pictures, 15 raters."""
    return make_plan(GradingRules(pictures=60), TEAMS, 200, raters(15), SECRET)


@pytest.fixture(scope="module")
def large_plan():
    """Four submissions, 150 pictures, and three raters who grade everything."""
    return make_plan(GradingRules(pictures=150), TEAMS, 150, raters(3), SECRET)


@st.composite
def rounds(draw):
    """Rounds that can be graded, small ones and those at the edge of it."""
    distance = draw(st.sampled_from([1, 3, 20]))
    count = 2 * (distance + 1) + draw(st.sampled_from([0, 1, 7, 25]))
    per_picture = draw(st.integers(3, 5))
    rules = GradingRules(pictures=count, raters_per_picture=per_picture, distance=distance)
    pool = raters(draw(st.integers(per_picture, 17)))
    return rules, TEAMS[: draw(st.integers(1, 4))], count + draw(st.sampled_from([0, 3, 60])), pool


@given(rounds(), st.binary(max_size=8))
@settings(max_examples=15, deadline=None)
def test_every_round_without_problems_has_a_balanced_plan(round_, secret):
    """Every picture has its raters, every rater has equally many of each submission, and versions are far apart."""
    rules, submissions, _, pool = round_
    if plan_problems(*round_):
        with pytest.raises(Rejected):
            make_plan(*round_, secret)
        return
    made = make_plan(*round_, secret)
    assert len({*made.positions}) == rules.pictures
    assert_apart(made)
    scored = [(rater, item) for rater, item in made.items() if item.scored]
    for task, each in ((GradingTask.VALID, 3), (GradingTask.QUALITY, rules.raters_per_picture)):
        seats = {(i.submission, i.position, rater) for rater, i in scored if i.task is task}
        per_picture = Counter(seat[:2] for seat in seats)
        assert set(per_picture.values()) == {each}
        assert len(per_picture) == len(submissions) * rules.pictures
        counts = Counter((seat[2], seat[0]) for seat in seats)
        for rater in pool:
            assert len({counts[rater, submission] for submission in submissions}) == 1, "unequal between submissions"
        assert max(counts.values()) - min(counts.values()) <= 1


def test_a_plan_is_the_secrets(plan):
    """The same secret gives the same plan and digest; another one other pictures, tokens and digest."""
    arguments = (GradingRules(pictures=60), TEAMS, 200, raters(15))
    assert make_plan(*arguments, SECRET) == plan
    assert make_plan(*arguments, SECRET).digest == plan.digest
    other = make_plan(*arguments, b"another")
    assert other.positions != plan.positions
    assert other.digest != plan.digest
    assert not {item.token for _, item in other.items()} & {item.token for _, item in plan.items()}


def test_a_plan_survives_json(plan):
    """What is written and read again is the same plan with the same digest."""
    again = GradingPlan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.digest == plan.digest


def test_a_plan_with_a_token_twice_is_none(plan):
    """Answers could not be told apart."""
    twice = plan.model_dump()
    twice["sheets"][1]["items"][0]["token"] = twice["sheets"][0]["items"][0]["token"]
    with pytest.raises(ValueError, match="a token occurs twice"):
        GradingPlan.model_validate(twice)


def test_hidden_items_are_enough_for_the_rule_that_removes_raters(plan, large_plan):
    """Every rater grades 15 originals and 15 anchors at least, each in a large session 5 % of it."""
    for made in (plan, large_plan):
        for _, items in bodies(made):
            kinds = Counter(item.kind for item in items if not item.scored and not item.repeat_of)
            assert set(kinds) == {ItemKind.ORIGINAL, ItemKind.ANCHOR}
            if items[0].task is GradingTask.QUALITY:
                assert min(kinds.values()) >= 15
    for _, items in bodies(large_plan):
        assert 0.145 < sum(not item.scored for item in items) / len(items) < 0.16


def test_a_repeat_names_the_earlier_item(plan):
    """The later of two items is the repeat: same picture, another token, not scored."""
    seen = 0
    for _, items in bodies(plan):
        places = {item.token: place for place, item in enumerate(items)}
        for place, item in enumerate(items):
            if item.repeat_of:
                first = items[places[item.repeat_of]]
                assert places[item.repeat_of] < place
                assert (first.submission, first.position) == (item.submission, item.position)
                assert first.scored
                assert not item.scored
                seen += 1
    assert seen >= 15


def test_validity_is_asked_first_and_practice_before_each_task(plan):
    """Whoever sees a picture's original would know its class, so all such questions come before."""
    for rater in plan.raters:
        items = plan.items_of(rater)
        tasks = [item.task for item in items]
        begin = tasks.index(GradingTask.QUALITY)
        assert {*tasks[:begin]} == {GradingTask.VALID}
        assert {*tasks[begin:]} == {GradingTask.QUALITY}
        practised = [place for place, item in enumerate(items) if item.practice]
        assert practised == [*range(PRACTICE_ITEMS), *range(begin, begin + PRACTICE_ITEMS)]
        graded = {*plan.positions}
        assert not graded & {items[place].position for place in practised}


def test_submissions_are_mixed_evenly(large_plan):
    """Each half of a rater's items has its half of each submission's pictures, but for six of 75.

    A random order would differ by 13 in some of these 24 places.
    """
    for _, items in bodies(large_plan):
        half = Counter(item.submission for item in items[: len(items) // 2] if item.scored)
        whole = Counter(item.submission for item in items if item.scored)
        assert all(abs(half[team] - whole[team] / 2) <= 6 for team in TEAMS)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"submissions": ["ants", "ants"]}, "name each submission once", id="a submission twice"),
        pytest.param({"submissions": []}, "no submission is named", id="no submission"),
        pytest.param({"raters": ["a", "b"]}, "2 raters are named, and each picture needs 3", id="too few raters"),
        pytest.param({"raters": ["a", "a", "b", "c"]}, "named twice: a", id="a rater twice"),
        pytest.param({"raters": ["a", "b", "No Slug"]}, "'No Slug' is not an id", id="no id"),
        pytest.param(
            {"picture_count": 40}, "60 pictures are to be graded, and the task has 40", id="too many pictures"
        ),
        pytest.param({"rules": GradingRules(pictures=41)}, "grade 42 pictures or more", id="too few pictures"),
        pytest.param({"raters": raters(181)}, "180 seats", id="too many raters"),
    ],
)
def test_what_cannot_be_graded_is_said_before(changed, words):
    """Each problem is named with its remedy, and no plan is made."""
    whole = {
        "rules": GradingRules(pictures=60),
        "submissions": TEAMS,
        "picture_count": 200,
        "raters": raters(4),
    } | changed
    problems = plan_problems(**whole)
    assert len(problems) == 1
    assert words in str(problems[0]).replace("60 pictures with 3 raters each", "180 seats")
    assert problems[0].remedy
    with pytest.raises(Rejected):
        make_plan(**whole, secret=SECRET)


def test_all_problems_are_named_at_once():
    """Whoever mends a contest file does it once."""
    assert len(plan_problems(GradingRules(), [], 5, ["a", "a"])) == 4


def test_a_sheet_shows_what_the_plan_says(plan):
    """Pictures of submissions, originals and anchors; no label, no original and no team with questions of validity."""
    rng = np.random.default_rng(1)
    task_pictures = rng.integers(0, 256, (200, 3, 8, 8), np.uint8)
    heading = SheetHeading("contest", ("cat", "dog"), 8, 8, GradingRules())

    def picture_of(submission, position):
        return task_pictures[position] if submission is None else np.roll(task_pictures[position], len(submission) % 7)

    def sheet():
        return sheet_for(plan, "rater-3", heading, picture_of, lambda pixels: pixels.tobytes().hex())

    made = sheet()
    assert made == sheet()
    assert made.plan == plan.digest
    for item, shown in zip(plan.items_of("rater-3"), made.items, strict=True):
        original = task_pictures[item.position].tobytes().hex()
        assert shown.original == (original if item.task is GradingTask.QUALITY else "")
        assert (shown.token, shown.practice) == (item.token, item.practice)
        assert (shown.picture == original) == (item.kind is ItemKind.ORIGINAL)
        if item.submission:
            assert shown.picture == picture_of(item.submission, item.position).tobytes().hex()
    assert not any(team in made.model_dump_json() for team in TEAMS)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 7, 13)], ids=str)
@pytest.mark.parametrize("value", [0, 128])
def test_an_anchor_is_far_from_its_original(shape, value):
    """Even of an empty picture, in every shape: the change is large, and the same generator makes it again."""
    original = np.full(shape, value, np.uint8)
    for seed in range(8):
        anchor = distort(original, np.random.default_rng(seed))
        assert np.array_equal(anchor, distort(original, np.random.default_rng(seed)))
        assert anchor.shape == shape
        assert anchor.dtype == np.uint8
        assert np.abs(anchor.astype(int) - value).mean() > 4


def test_a_supplement_asks_others(plan):
    """Further raters are people who were not asked about the picture, new ones with enough hidden items."""
    busy = next(item for _, item in plan.items() if item.scored and item.task is GradingTask.VALID)
    about = (busy.submission, busy.position)
    before = {r for r, i in plan.items() if i.task is GradingTask.VALID and (i.submission, i.position) == about}
    pool = [*sorted(before), "new-1", "new-2"]
    requests = [MoreRaters(*about, GradingTask.VALID, 2)]
    made = make_supplement(plan, [], requests, pool, SECRET)
    assert made.supplements == plan.digest
    assert {*made.raters} == {"new-1", "new-2"}
    assert_apart(made)
    for rater in made.raters:
        kinds = Counter(i.kind for i in made.items_of(rater) if i.task is GradingTask.QUALITY and not i.practice)
        assert kinds[ItemKind.ORIGINAL] >= 15
        assert kinds[ItemKind.ANCHOR] >= 15
        assert [(i.submission, i.position) for i in made.items_of(rater) if i.scored] == [about]
    with pytest.raises(Rejected, match="2 more raters are needed, and 0 have not been asked"):
        make_supplement(plan, [made], requests, pool, SECRET)


def test_a_supplement_of_known_raters_is_short(plan):
    """Who passed the hidden items of the plan is asked what is needed for one task, and no other task."""
    busy = next(item for _, item in plan.items() if item.scored and item.task is GradingTask.VALID)
    request = MoreRaters(busy.submission, busy.position, GradingTask.VALID, 2, appeal=True)
    made = make_supplement(plan, [], [request], plan.raters, SECRET)
    assert {item.task for _, item in made.items()} == {GradingTask.VALID}
    assert all(item.appeal for _, item in made.items() if item.scored)
    assert not {i.token for _, i in made.items()} & {i.token for _, i in plan.items()}
    again = make_supplement(plan, [made], [request], plan.raters, SECRET)
    assert not {*again.raters} & {*made.raters}


def test_tokens_of_two_supplements_differ(plan):
    """The same rater may be in several of them, and each answer belongs to one."""
    pictures = [item for item in plan.items_of("rater-1") if item.scored and item.task is GradingTask.VALID][:2]
    made = []
    for item in pictures:
        request = MoreRaters(item.submission, item.position, GradingTask.VALID, 1)
        made.append(make_supplement(plan, made, [request], ["new"], SECRET))
    first, second = ({item.token for _, item in each.items()} for each in made)
    assert not first & second


def test_who_was_not_shown_the_original_is_asked_first(plan):
    """Whoever saw the original beside a version of a picture knows its class."""
    for _, item in [pair for pair in plan.items() if pair[1].scored and pair[1].task is GradingTask.VALID][:5]:
        shown = {r for r, i in plan.items() if i.task is GradingTask.QUALITY and i.position == item.position}
        request = MoreRaters(item.submission, item.position, GradingTask.VALID, 1)
        [asked] = make_supplement(plan, [], [request], [*sorted(shown), "new"], SECRET).raters
        assert asked == "new"


@pytest.fixture(scope="module")
def season_plan():
    """Three submissions, 40 of 100 pictures, 17 raters, five for each picture, as in examples/attack-set."""
    return make_plan(GradingRules(pictures=40, raters_per_picture=5, distance=10), TEAMS[:3], 100, raters(17), SECRET)


def season_requests(plan, rng):
    """Returns what is missing where two raters are removed and one in ten of the complete votes is split."""
    removed = {f"rater-{number}" for number in rng.permutation(17)[:2]}
    votes, lost = Counter(), Counter()
    for rater, item in plan.items():
        if item.scored and item.task is GradingTask.VALID:
            votes[item.submission, item.position] += 1
            lost[item.submission, item.position] += rater in removed
    more = {about: lost[about] or 2 * (rng.random() < 0.1) for about in sorted(votes)}
    return [MoreRaters(*about, GradingTask.VALID, count) for about, count in more.items() if count]


@pytest.mark.slow
def test_every_supplement_of_a_season_has_an_order(season_plan):
    """Five fresh raters are enough for what two removed ones leave, whatever the secret draws.

    Before lists were made long enough for a picture's versions, some of these secrets were refused.
    """
    for seed in range(300):
        requests = season_requests(season_plan, np.random.default_rng(seed))
        fresh = [f"new-{number}" for number in range(5)]
        made = make_supplement(season_plan, [], requests, fresh, bytes([seed % 256, seed // 256]))
        assert_apart(made)
        assert sum(item.scored for _, item in made.items()) == sum(request.count for request in requests)


def test_a_supplement_is_the_secrets(plan):
    """Also where all versions of a picture are graded soon after the questions about them: those lists are drawn again.

    The distance is kept across the two tasks.
    """
    requests = [MoreRaters(team, plan.positions[0], task, 1) for task in GradingTask for team in TEAMS]
    made = make_supplement(plan, [], requests, ["new"], SECRET)
    assert_apart(made)
    assert make_supplement(plan, [], requests, ["new"], SECRET) == made
    assert make_supplement(plan, [], requests, ["new"], b"another").digest != made.digest


@pytest.mark.parametrize("task", GradingTask)
@pytest.mark.parametrize("fresh", [["new-1"], ["new-1", "new-2"]], ids=["one rater", "two raters"])
def test_a_rater_may_be_asked_about_all_versions_of_a_picture(plan, task, fresh):
    """Where there are no more raters, so many hidden items lie in between that the distance is kept, and not more."""
    for position in plan.positions[:12]:
        requests = [MoreRaters(team, position, task, len(fresh)) for team in TEAMS]
        made = make_supplement(plan, [], requests, fresh, SECRET)
        assert_apart(made)
        for rater in made.raters:
            asked = [item for item in made.items_of(rater) if item.task is task and not item.practice]
            assert sum(item.scored for item in asked) == len(TEAMS)
            assert len(asked) <= len(TEAMS) * (plan.distance + 1) + 1


def test_versions_of_a_picture_go_to_different_raters(season_plan):
    """As long as there is a rater who has none of them in the supplement."""
    for position in season_plan.positions:
        requests = [MoreRaters(team, position, GradingTask.VALID, 1) for team in TEAMS[:3]]
        others = [at for at in season_plan.positions if at != position][:4]
        requests[1:1] = [MoreRaters(TEAMS[0], at, GradingTask.VALID, 1) for at in others]
        made = make_supplement(season_plan, [], requests, ["new-1", "new-2", "new-3"], SECRET)
        counts = Counter(rater for rater, item in made.items() if item.scored and item.position == position)
        assert set(counts.values()) == {1}


def test_a_supplement_of_too_few_pictures_says_how_many_are_needed(season_plan):
    """No number of hidden items helps where there are fewer other pictures than have to lie in between."""
    few = season_plan.model_copy(update={"positions": season_plan.positions[:10], "sheets": ()})
    requests = [MoreRaters(team, few.positions[0], GradingTask.VALID, 1) for team in TEAMS[:2]]
    with pytest.raises(Rejected, match=r"keeps 10 other items .*; grade 22 pictures or more, or lower"):
        make_supplement(few, [], requests, ["new"], SECRET)


@given(st.lists(st.integers(0, 6), max_size=24), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_there_is_an_order_from_the_shortest_length_on(pictures, distance, seed):
    """With as many items there is one that keeps the distance, and with fewer there is none."""
    order = separate(pictures, lambda picture: picture, distance, [], np.random.default_rng(seed))
    assert (order is None) == (len(pictures) < shortest_length(pictures, distance))
    if order is not None:
        assert sorted(order) == sorted(pictures)
        places = [[place for place, each in enumerate(order) if each == picture] for picture in {*order}]
        assert all(later - earlier > distance for own in places for earlier, later in pairwise(own))
