"""The names of the rounds of an unrestricted contest: one for each defence, and one for each week."""

OTHER_SEEDS = 4
"""How many other seeds a defence is asked with about each picture of a week (U13)."""
_ELIGIBILITY, _WEEK = "eligibility-", "week-"


def eligibility_round(defence: str) -> str:
    """Returns the name of the round in which a defence is tested before it may take part (U2)."""
    return f"{_ELIGIBILITY}{defence}"


def week_round(week: str) -> str:
    """Returns the name of the round in which defences are asked about the pictures of a week (U7)."""
    return f"{_WEEK}{week.lower()}"


def defence_of(name: str) -> str:
    """Returns the defence of a round on the eligibility set, "" for another round."""
    return name.removeprefix(_ELIGIBILITY) if name.startswith(_ELIGIBILITY) else ""


def week_of(name: str) -> str:
    """Returns the week of a week's round, "" for another round."""
    return name.removeprefix(_WEEK).upper() if name.startswith(_WEEK) else ""
