"""The cases of the review board of an unrestricted contest, as one member sees them (U8).

A case in which the member has a conflict does not exist for the member: in no list, in no count, at no address.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from orchestrator.application.contests.unrestricted_contest import Command
from orchestrator.domain.contest_events import Role
from orchestrator.formats.unrestricted import commands
from orchestrator.formats.unrestricted.event_checks import case_of, vote_on
from orchestrator.formats.unrestricted.events import INVALID, Vote
from orchestrator.formats.unrestricted.money import format_units
from orchestrator.formats.unrestricted.recusal import MIN_QUORUM
from orchestrator.formats.unrestricted.state import DefenceStatus, PictureStatus, State
from orchestrator.formats.unrestricted.validity import Outcome
from orchestrator.formats.unrestricted.visibility import is_recused


@dataclass(frozen=True, slots=True)
class CaseLine:
    """A case in a list: its id, such as `appeal:0123`, and its title."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A question of a case that members vote on, with the votes so far. `own` is the member's vote, None before it."""

    question: str
    words: str
    vote: Vote
    own: bool | None


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its title, the choices, and what it is about.

    `picture` and `defences` are ids. `objection` is the text of the appealing team, and `appeal` the id of an appeal
    whose panel may still be called; "" otherwise. `has_panel` says whether the appeal's new raters were asked.
    `confirmations` are the defences on whose worklist the picture is (U11). `has_voted` says whether this member voted
    about the picture, and so may not confirm it. `is_short` says that too few members may vote.
    """

    id: str
    title: str
    choices: tuple[Choice, ...]
    picture: str = ""
    defences: tuple[str, ...] = ()
    source: str = ""
    objection: str = ""
    appeal: str = ""
    has_panel: bool = False
    confirmations: tuple[str, ...] = ()
    has_voted: bool = False
    is_short: bool = False


LISTED_CASES = 100
"""The most cases of a kind that are listed; later ones are listed once earlier ones are decided."""


def waiting_cases(state: State, member: str, now: datetime) -> dict[str, list[CaseLine]]:
    """Returns the first cases that wait for a member, by the kind's heading: at most `LISTED_CASES` of each kind."""
    found = {
        words: list(islice((each for each in lines(state) if _waits(state, member, each.id, now)), LISTED_CASES))
        for words, lines in _KINDS.values()
    }
    return {kind: lines for kind, lines in found.items() if lines}


def short_cases(state: State, now: datetime, seat: str = "") -> list[CaseLine]:
    """Returns the waiting cases that too few members may decide, so that organizers may seat outside members (U8).

    There are none before the board is large enough to decide anything. `seat` is the caller's name on the board: cases
    in which the caller has a conflict are left out, and another organizer has to seat somebody.
    """
    if len(state.board.members) < MIN_QUORUM:
        return []
    return [
        CaseLine(each.id, _title(state, each.id))
        for _, lines in _KINDS.values()
        for each in islice(lines(state), LISTED_CASES)
        if _is_short(state, each.id, now) and not _has_conflict(state, seat, each.id, now)
    ]


def undecidable_cases(state: State, member: str, now: datetime) -> list[CaseLine]:
    """Returns the cases of which a member is told that the board is short of members for them (U8, U11).

    Too few may vote, or nobody may confirm the rejection: an organizer who has a conflict with a case is not told.
    """
    return [
        CaseLine(case, _title(state, case))
        for case in _short_or_unconfirmable(state, now)
        if _may_act(state, member, case, now)
    ]


def untold_cases(state: State, now: datetime) -> int:
    """Returns how many cases the board is short of members for, while neither a member nor an organizer is told.

    Each of them has a conflict with the case, so that no more than their number may be said (U8).
    """
    organizers = [state.board.name_of(each.identity_key) for each in state.season.roles[Role.ORGANIZER].values()]
    return sum(
        not _able_members(state, case, now) and all(_has_conflict(state, seat, case, now) for seat in organizers)
        for case in _short_or_unconfirmable(state, now)
    )


def _short_or_unconfirmable(state: State, now: datetime) -> list[str]:
    """Returns the cases for which the board is short of members, each once, for those who have a conflict too."""
    short = [each.id for each in short_cases(state, now)]
    return list(dict.fromkeys([*short, *(f"overrule:{each}" for each in unconfirmable_rejections(state, now))]))


def _is_short(state: State, case: str, now: datetime) -> bool:
    return len(_able_members(state, case, now)) < MIN_QUORUM


def _able_members(state: State, case: str, now: datetime) -> list[str]:
    """Returns the members of the board for a case who have no conflict with it."""
    return [who for who in state.board.members_of(case) if not _has_conflict(state, who, case, now)]


def _has_conflict(state: State, member: str, case: str, now: datetime) -> bool:
    return is_recused(state, member, state.teams_of(case), now)


def not_admitted(state: State) -> list[str]:
    """Returns the teams that are not admitted to submit pictures (U4)."""
    return [team for team in state.season.teams if team not in state.admitted]


def waiting_attackers(state: State) -> list[str]:
    """Returns the teams that wait to be admitted as attackers: not admitted yet, and without a defence."""
    defending = {each.team for each in state.defences.values()}
    return [team for team in not_admitted(state) if team not in defending]


def defending_teams(state: State, member: str, now: datetime) -> list[CaseLine]:
    """Returns the admissions of defending teams that a member may decide; they are not among the waiting cases.

    A defending team needs no admission (U4), and many such teams never attack.
    """
    waiting = waiting_attackers(state)
    others = (CaseLine(f"admit:{team}", team) for team in not_admitted(state) if team not in waiting)
    return [each for each in others if _may_act(state, member, each.id, now)]


def unconfirmable_rejections(state: State, now: datetime, seat: str = "") -> list[str]:
    """Returns the pictures whose rejection no member may confirm, since each has voted or has a conflict.

    `seat` is the caller's name on the board, as for `short_cases`.
    """
    return [
        case.id.partition(":")[2]
        for case in islice(_confirmations(state), LISTED_CASES)
        if not any(_waits(state, member, case.id, now) for member in state.board.members_of(case.id))
        and not _has_conflict(state, seat, case.id, now)
    ]


def exists(state: State, case: str) -> bool:
    """Returns whether there is a case with this id."""
    try:
        state.teams_of(case)
    except KeyError:
        return False
    return True


def find_case(state: State, member: str, case: str, now: datetime) -> Case | None:
    """Returns an open case, None if there is none with this id that the member may act on."""
    if not _may_act(state, member, case, now) or not _is_open(state, case):
        return None
    choices = tuple(_choice(state, member, question, words, now) for question, words in _questions(state, case))
    if not choices:
        return None
    kind, _, subject = case.partition(":")
    picture = state.picture_of(case)
    appeal = state.appeals[subject] if kind == "appeal" else None
    named = subject.split("+") if kind == "stake" else [subject] if kind == "readable" else []
    staked = state.defences.values() if kind == "overrule" and picture is not None else ()
    return Case(
        id=case,
        title=_title(state, case),
        choices=choices,
        picture=picture.id if picture else "",
        defences=tuple(named),
        source=state.defences[subject].source if kind == "readable" else "",
        objection=appeal.text if appeal else "",
        appeal=appeal.id if appeal and not (appeal.has_panel or appeal.decided) else "",
        has_panel=appeal is not None and appeal.has_panel,
        confirmations=tuple(each.id for each in staked if picture and state.awaits_confirmation(each, picture)),
        has_voted=picture is not None and member in picture.members,
        is_short=_is_short(state, case, now),
    )


def decision(question: str, reason: str, actor: str, batch: str) -> Command | None:
    """Returns the command that records the board's decision on a question; None if it is no question.

    `batch` names defences that are staked together; the reason is recorded for each.
    """
    kind, _, subject = question.partition(":")
    name, _, outcome = subject.partition(":")
    class_name = None if outcome == INVALID else outcome
    made: dict[str, Callable[[], Command]] = {
        "readable": lambda: partial(_decide_readability, actor=actor, defence=subject, reason=reason),
        "admit": lambda: partial(commands.admit_attacker, actor=actor, team=subject),
        "stake": lambda: partial(
            commands.stake_by_board, actor=actor, batch=batch, criteria=dict.fromkeys(subject.split("+"), reason)
        ),
        "appeal": lambda: partial(
            commands.rule_on_appeal, actor=actor, appeal=name, class_name=class_name, reason=reason
        ),
        "overrule": lambda: partial(commands.overrule, actor=actor, picture=name, class_name=class_name, reason=reason),
        "report": lambda: partial(
            commands.decide_report, actor=actor, picture=name, withhold=outcome == "withhold", reason=reason
        ),
        "withhold": lambda: partial(commands.withhold_prize, actor=actor, award=subject, reason=reason),
    }
    return made[kind]() if kind in made else None


def _decide_readability(state: State, now: datetime, *, actor: str, defence: str, reason: str) -> commands.Result:
    """Records the answer that has more votes; a tie counts as readable."""
    try:
        vote = vote_on(state, f"readable:{defence}", now)
    except KeyError:
        vote = None
    readable = vote is not None and len(vote.in_favour) >= len(vote.against)
    return commands.decide_readability(state, now, actor, defence, readable=readable, reason=reason)


def _may_act(state: State, member: str, case: str, now: datetime) -> bool:
    if not exists(state, case):
        return False
    seated = member in state.board.members_of(case_of(case))
    return seated and not _has_conflict(state, member, case, now)


def _waits(state: State, member: str, case: str, now: datetime) -> bool:
    """Returns whether a case in a list waits for a member: one who voted about a picture may not confirm it (U11)."""
    kind, _, subject = case.partition(":")
    voted = kind == "overrule" and member in state.pictures[subject].members
    return not voted and _may_act(state, member, case, now)


def _is_open(state: State, case: str) -> bool:
    """Returns whether a case waits for the board. A ruling may be reconsidered at any time (U8)."""
    kind, _, subject = case.partition(":")
    if kind == "overrule":
        return subject in state.pictures and state.pictures[subject].status is not PictureStatus.RECEIVED
    if kind == "admit":
        return subject in not_admitted(state)
    named = [f"{kind}:{each}" for each in subject.split("+")] if kind == "stake" else [case]
    _, lines = _KINDS[kind]
    return {each.id for each in lines(state)}.issuperset(named)


def _choice(state: State, member: str, question: str, words: str, now: datetime) -> Choice:
    return Choice(question, words, vote_on(state, question, now), state.board.votes.get(question, {}).get(member))


def _questions(state: State, case: str) -> list[tuple[str, str]]:
    """Returns the questions of a case that may be voted on now, each with its text."""
    kind, _, subject = case.partition(":")
    outcomes = [*((name, f"It is a valid {name}") for name in sorted(state.class_names)), (INVALID, "It is not valid")]
    if kind == "overrule":
        picture = state.pictures[subject]
        is_ruled = picture.ruled_at is not None
        outcomes = [each for each in outcomes if is_ruled and each[0] != (picture.class_name or INVALID)]
    several = {
        "report": [("withhold", "Its pixels are withheld"), ("show", "Raters go on")],
        "appeal": outcomes,
        "overrule": outcomes,
    }
    if kind in several:
        return [(f"{case}:{name}", words) for name, words in several[kind]]
    return [(case, _ONE_QUESTION[kind])]


def _title(state: State, case: str) -> str:
    kind, _, subject = case.partition(":")
    about = state.appeals[subject].picture if kind == "appeal" else subject
    if kind == "withhold":
        return f"The award of {_award(state, subject)}"
    words = {
        "readable": f"Is the code of {about} readable?",
        "admit": f"May {about} attack without a preprint?",
        "stake": f"Stake {subject.replace('+', ' and ')}",
        "report": f"The reported picture {about}",
        "appeal": f"The appeal about the picture {about}",
        "overrule": f"The ruling on the picture {about}",
    }
    return words[kind]


def _readability(state: State) -> Iterator[CaseLine]:
    for each in state.defences.values():
        if each.status is DefenceStatus.RECEIVED and state.season.entries[each.id].is_active:
            yield CaseLine(f"readable:{each.id}", f"{each.id} of {each.team}")


def _admissions(state: State) -> Iterator[CaseLine]:
    for team in waiting_attackers(state):
        yield CaseLine(f"admit:{team}", team)


def _stakes(state: State) -> Iterator[CaseLine]:
    for each in state.defences.values():
        active = state.season.entries[each.id].is_active
        if each.status is DefenceStatus.PUBLISHED and active and not state.threatening(each):
            yield CaseLine(f"stake:{each.id}", f"{each.id} of {each.team}")


def _reports(state: State) -> Iterator[CaseLine]:
    for name in state.unsettled:
        ruling = state.pictures[name].ruling
        if ruling is not None and ruling.outcome is Outcome.REPORTED and not state.pictures[name].withheld:
            yield CaseLine(f"report:{name}", name)


def _appeals(state: State) -> Iterator[CaseLine]:
    for name in state.open_appeals:
        appeal = state.appeals[name]
        end = state.board_decides_until(appeal)
        waits = f"; its new raters do not agree, so the board may vote until {end:%Y-%m-%d %H:%M} UTC" if end else ""
        if appeal.is_reported:
            waits = "; a new rater reported the picture, so the board has to vote"
        yield CaseLine(f"appeal:{name}", f"picture {appeal.picture}, by {appeal.team}{waits}")


def _confirmations(state: State) -> Iterator[CaseLine]:
    staked = [each for each in state.defences.values() if each.staked_at is not None]
    for name in state.rejected:
        picture = state.pictures[name]
        if defences := [each.id for each in staked if state.awaits_confirmation(each, picture)]:
            yield CaseLine(f"overrule:{name}", f"{name}, shown to {', '.join(defences)}")


def _awards(state: State) -> Iterator[CaseLine]:
    for each in state.books.unpaid() if state.books else ():
        if each.is_prize:
            yield CaseLine(f"withhold:{each.id}", _award(state, each.id))


def _award(state: State, award: str) -> str:
    """Returns an award in words: its amount, the team that gets it, and the defence."""
    if state.books is None:
        return award
    transfer = state.books.transfers[award]
    amount = format_units(transfer.amount, state.books.currency)
    return f"{amount} to {transfer.team}, because of {transfer.defence}"


_ONE_QUESTION = {
    "readable": "The code can be read",
    "admit": "The team may submit pictures without a preprint",
    "stake": "The defences are staked, together where there are several",
    "withhold": "The award is withheld",
}
_KINDS: dict[str, tuple[str, Callable[[State], Iterator[CaseLine]]]] = {
    "report": ("Reported pictures", _reports),
    "appeal": ("Appeals", _appeals),
    "readable": ("Readability of code", _readability),
    "overrule": ("Rejections to confirm", _confirmations),
    "stake": ("Staking", _stakes),
    "admit": ("Admission without a preprint", _admissions),
    "withhold": ("Awards that are not paid", _awards),
}
"""The kinds of cases, by the first word of a case's id: the heading, and a function that yields the waiting cases."""
