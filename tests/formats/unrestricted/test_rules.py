"""The rules of the unrestricted contest as the contest file writes them."""

import pytest
from pydantic import ValidationError

from orchestrator.formats.unrestricted.rules import UnrestrictedRules, rule_warnings
from orchestrator.formats.unrestricted.week_calendar import Weekday


def test_the_defaults_are_those_of_seed_003() -> None:
    """Ten pictures a day, ninety days, weeks to Friday, a perfect eligibility set."""
    rules = UnrestrictedRules()
    assert (rules.uploads_per_day, rules.days_unbroken) == (10, 90)
    assert (rules.week.ends, rules.eligibility) == (Weekday.FRIDAY, "perfect")


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_zone": "Mars/Base"},
        {"week": {"ends": "someday"}},
        {"prizes": {"pool": "1.00 EUR", "per_break": "0.51 EUR"}},
        {"prizes": {"pool": "1.00 EUR", "per_break": "0.05 EUR", "advances": {30: 60, 60: 40}}},
        {"prizes": {"pool": "1.00 EUR", "per_break": "0.05 USD"}},
        {"prizes": {"pool": "1.00 EUR", "per_break": "0.05 EUR", "advances": {90: 10}}},
        {"uploads_per_day": 0},
    ],
)
def test_rules_that_cannot_be_kept_are_refused(wrong) -> None:
    """A zone that is none, a minority that decides, or prizes beyond the pool are errors of the contest file."""
    with pytest.raises(ValidationError):
        UnrestrictedRules.model_validate(wrong)


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({}, "last_day"),
        ({}, "prizes"),
        ({}, "time_zone"),
        ({"eligibility": "right_on_80"}, "eligibility"),
        ({"on_fault": "break"}, "on_fault"),
        ({"validity": {"minimum_area_percent": 16}}, "validity.minimum_area_percent"),
    ],
)
def test_a_rule_that_surprises_is_warned_of(rules, key) -> None:
    """Each rule that departs from the document, or leaves something open, has a sentence that names it."""
    assert any(f"rules.{key}" in warning for warning in rule_warnings(UnrestrictedRules.model_validate(rules)))


def test_a_contest_as_the_document_has_it_is_not_warned_of() -> None:
    """A complete contest file by the document has no warnings."""
    rules = {
        "time_zone": "Europe/Berlin",
        "last_day": "2027-12-31",
        "prizes": {"pool": "10000.00 EUR", "per_break": "200.00 EUR", "advances": {30: 10}},
    }
    assert rule_warnings(UnrestrictedRules.model_validate(rules)) == []
