"""Rules in words: whoever changes a rule of the contest file changes a sentence, or the sentence is wrong."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from orchestrator import plugins, resources
from orchestrator.domain.contest_format import FormatRules
from orchestrator.formats.attack_set.format import AttackSet
from orchestrator.formats.tournament.format import Tournament
from orchestrator.formats.unrestricted.format import Unrestricted
from orchestrator.formats.warmup.format import Warmup
from orchestrator.intake.contest_file import Contest

from .echo.sparring_echo.format import Echo

MOVED = {"dx": 1, "dy": 2, "angle": 3, "transform": {"kind": "pillow", "border": 0.1}}
WARMUP: dict[str, Any] = {
    "submissions_per_team": 7,
    "corruptions": {"pictures": 11},
    "spsa": {"start": MOVED},
    "boundary": {"start": MOVED},
}
GRADED: dict[str, Any] = {"grading": {}}
PAID: dict[str, Any] = {"prizes": {"pool": "1000 EUR", "per_break": "50 EUR", "advances": {30: 10}}}
CHANGES: dict[str, tuple[type, dict[str, Any], dict[str, Any]]] = {
    "tournament": (
        Tournament,
        {},
        {
            "on_finding": "zero",
            "on_missing": "ask",
            "on_violation": "clip",
            "clean_floor": None,
            "clean_floor.baseline": "other",
            "clean_floor.points": 3,
            "initial.classifier": "other",
            "initial.crafted_on": "self",
            "initial.weights": {"fgsm": 1},
            "finalists": 1,
            "final": "finalists",
            "tasks_per_person": 1,
            "submissions_per_team": 1,
        },
    ),
    "warmup": (
        Warmup,
        WARMUP,
        {
            "on_finding": "disqualify",
            "submissions_per_team": 1,
            "coverage": "reference",
            "throughput": None,
            "transform.kind": "tensorflow",
            "transform.border": 0.2,
            "spatial": None,
            "spatial.pictures": 1,
            **{f"spatial.limits.{key}": 1.5 for key in ("dx", "dy", "angle")},
            **{f"spatial.{key}": 9 for key in ("dx_steps", "dy_steps", "angle_steps")},
            "spatial.axes": "reference",
            "spatial.ink_check": "intended",
            "spsa": None,
            "spsa.stop": "after",
            "spsa.samples": 128,
            **{f"spsa.{key}": 3 for key in ("pictures", "epsilon", "steps", "delta", "learning_rate", "stop_margin")},
            "boundary": None,
            **{
                f"boundary.{key}": 3
                for key in ("pictures", "distance", "iterations", "directions", "directions_per_question")
            },
            **{f"{attack}.start": None for attack in ("spsa", "boundary")},
            **{f"{attack}.start.{key}": 9.5 for attack in ("spsa", "boundary") for key in ("dx", "dy", "angle")},
            **{f"{attack}.start.transform": None for attack in ("spsa", "boundary")},
            **{f"{attack}.start.transform.kind": "tensorflow" for attack in ("spsa", "boundary")},
            **{f"{attack}.start.transform.border": 0.3 for attack in ("spsa", "boundary")},
            "corruptions": None,
            "corruptions.pictures": 1,
        },
    ),
    "attack_set": (
        AttackSet,
        GRADED,
        {
            "on_finding": "flag",
            "formats": ["npz"],
            "count": "correct",
            "ssim": "windowed",
            "nte": "successful",
            "probabilities": "given",
            "tries_per_day": None,
            "grading": None,
            "grading.pictures": 5,
            "grading.raters_per_picture": 9,
            "grading.distance": 2,
            "grading.session_size": 1,
            "grading.wording.valid": "What is it?",
            "grading.wording.quality": "How good?",
            "grading.grades": ["a", "b", "c", "d", "e"],
            "human_scale": 1,
        },
    ),
    "unrestricted": (
        Unrestricted,
        PAID,
        {
            "on_finding": "disqualify",
            "time_zone": "Asia/Tokyo",
            "week": {"ends": 6},
            "week.ends": 6,
            "last_day": "2027-06-30",
            "closed": "allowed",
            "eligibility": "right_on_80",
            "on_fault": "break",
            "uploads_per_day": 3,
            "days_unbroken": 60,
            "appeal_days": 2,
            "validity": {"minimum_area_percent": 16},
            "validity.raters_per_picture": 5,
            "validity.minimum_area_percent": 16,
            "validity.minimum_iou_percent": 40,
            "validity.appeal_raters": 6,
            "validity.appeal_majority": 3,
            "raters": {"practice_items": 3},
            "raters.practice_items": 3,
            "raters.hidden_percent": 0,
            "raters.hidden_minimum": 20,
            "raters.right_percent": 90,
            "classes": [
                {"name": "cat", "depictions": "a drawing of a cat", "real": "real cat"},
                {"name": "dog", "depictions": "a drawing of a dog", "real": "real dog"},
            ],
            "prizes": None,
            "prizes.pool": "2000 EUR",
            "prizes.per_break": "70 EUR",
            "prizes.advances": {},
            "prizes.advances.30": 20,
        },
    ),
}
CASES = [(name, key) for name, (_, _, changes) in CHANGES.items() for key in changes]


def keys_of(value: Any, path: str = "") -> Iterator[str]:
    """Yields every key of rules, and those of the sections in them; `weights` is one rule, its keys are names."""
    items = dict(value).items() if isinstance(value, BaseModel | dict) else ()
    for key, inner in items:
        yield f"{path}{key}"
        if not str(key).startswith("weights"):
            yield from keys_of(inner, f"{path}{key}.")


def with_rule(rules: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Returns rules with one of them changed."""
    key, _, rest = path.partition(".")
    return rules | {key: with_rule(rules[key], rest, value) if rest else value}


def sentences(kind: type, rules: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rules in words."""
    return kind(kind.rules_type.model_validate(rules)).rules_in_words()


@pytest.mark.parametrize("name", CHANGES)
def test_no_rule_of_the_contest_file_is_forgotten_here(name):
    """Every key that can be written is changed below; a section by itself only where it can be left out."""
    kind, rules, changes = CHANGES[name]
    every = set(keys_of(kind.rules_type.model_validate(rules)))
    sections = {"initial", "transform", "spatial.limits", "grading.wording"}
    assert {str(key) for key in every} - sections == changes.keys()


@pytest.mark.parametrize(("name", "key"), CASES, ids=[f"{name}-{key}" for name, key in CASES])
def test_each_rule_has_a_sentence_that_follows_its_value(name, key):
    """Another value gives other words."""
    kind, rules, changes = CHANGES[name]
    whole = kind.rules_type.model_validate(rules).model_dump(mode="json")
    changed = with_rule(whole, key, changes[key])
    if key == "initial.crafted_on":
        assert "each defence itself" in str(sentences(kind, changed))
    assert sentences(kind, changed) != sentences(kind, whole)


@pytest.mark.parametrize("name", CHANGES)
def test_the_words_of_a_template_are_sentences_with_their_rules(name):
    """Each begins with a capital letter, ends with a full stop, and stands by ids that documents know."""
    contest = Contest(resources.resource_path("examples", "templates", f"{name}.yaml"))
    for rule, sentence in contest.format.rules_in_words():
        assert re.fullmatch(r"[A-CU]\d+(, [A-CU]\d+)*", rule), rule
        assert re.fullmatch(r"[A-Z].*[.]", sentence), sentence
        assert "  " not in sentence
        assert "Reading" not in sentence


def test_every_format_of_ours_is_here():
    """A new format needs its words, and its case above."""
    assert CHANGES.keys() == set(plugins.plugin_names("formats")) - {"echo"}


def test_a_format_without_words_lists_keys_and_values():
    """What a format does not say is what its file says."""
    assert Echo(Echo.rules_type()).rules_in_words()[0] == ("", "on_finding: disqualify")
    assert issubclass(Echo.rules_type, FormatRules)
