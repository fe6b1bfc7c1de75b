"""The warm-up's rules: what a board says of the sizes of its attacks (B2)."""

import pytest
from pydantic import ValidationError

from orchestrator.formats.warmup.rules import WarmupRules
from orchestrator.intake.contest_file import Contest
from orchestrator.resources import resource_path


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, []),
        ({"spsa": {"steps": 100, "epsilon": 1}}, ["spsa.steps 100 of 200"]),
        (
            {"spatial": {"pictures": 999, "angle_steps": 7}},
            ["spatial.pictures 999 of 1,000", "spatial.angle_steps 7 of 31"],
        ),
        ({"spsa": {"steps": 2000}, "boundary": {"directions_per_question": 1}}, []),
        ({"spatial": None, "corruptions": {"pictures": 5}}, ["corruptions.pictures 5 of 1,000"]),
    ],
)
def test_sizes_below_their_defaults_are_named(rules, expected) -> None:
    """Only sizes are, and only where they are smaller."""
    assert WarmupRules.model_validate(rules).reduced_sizes() == expected


def test_a_change_of_less_than_a_step_is_asked_about() -> None:
    """As in a budget, 0.03 was meant as a share of the range; 0.03/255 would let nothing change."""
    with pytest.raises(ValidationError, match=r"0\.03 is less than one step of 1/255; did you mean 8,"):
        WarmupRules.model_validate({"spsa": {"epsilon": 0.03}})


def test_the_attacks_of_2018_are_not_reduced() -> None:
    """The preset for birds and bicycles has the sizes that are the defaults."""
    assert Contest(resource_path("examples", "warmup-2018.yaml")).format.rules.reduced_sizes() == []
