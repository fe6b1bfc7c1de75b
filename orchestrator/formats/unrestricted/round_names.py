"""What the rounds of an unrestricted contest are called: one for each defence, and one for each week."""

OTHER_SEEDS = 4
"""With how many other seeds a defence is asked about each picture of a week (U13)."""
_ELIGIBILITY, _WEEK = "eligibility-", "week-"


def eligibility_round(defence: str) -> str:
    """Returns the name of the round in which a defence is tested before it may take part (U2)."""
    return f"{_ELIGIBILITY}{defence}"


def week_round(week: str) -> str:
    """Returns the name of the round in which defences are asked about the pictures of a week (U7)."""
    return f"{_WEEK}{week.lower()}"


def defence_of(name: str) -> str:
    """Returns the defence whose round on the eligibility set this is, "" for another round."""
    return name.removeprefix(_ELIGIBILITY) if name.startswith(_ELIGIBILITY) else ""


def week_of(name: str) -> str:
    """Returns the week whose round this is, "" for another round."""
    return name.removeprefix(_WEEK).upper() if name.startswith(_WEEK) else ""
