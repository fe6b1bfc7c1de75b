"""The rounds of an unrestricted contest: one of each defence on the eligibility set, one of each week with pictures."""

_ELIGIBILITY, _WEEK = "eligibility-", "week-"


def eligibility_round(defence: str) -> str:
    """Returns the name of the round in which a defence is tested before it may take part (U2)."""
    return f"{_ELIGIBILITY}{defence}"


def week_round(week: str) -> str:
    """Returns the name of the round in which defences are asked about the pictures of a week (U7)."""
    return f"{_WEEK}{week}"
