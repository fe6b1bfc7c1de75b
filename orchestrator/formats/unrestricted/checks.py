"""Why an event may not happen now. Commands ask before they return one, and the fold asks again of every ledger.

So a forged ledger is found where it is folded: an illegal arrow, a vote of who is recused, a picture after the close,
a payment too many. Each check yields what is wrong, in words; an unknown id is a problem like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.money import Books, Transfer, TransferKind
from orchestrator.formats.unrestricted.prizes import (
    Waiting,
    defence_prize,
    end_contest,
    open_accounts,
    pay,
    prize_table,
    settle_stake,
    stake_by_board,
    stake_by_team,
    withhold,
)
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.rater_tests import RaterRecord
from orchestrator.formats.unrestricted.recusal import (
    COMPUTED,
    ConflictSource,
    computed_sources,
    quorum,
    waivers_left,
)
from orchestrator.formats.unrestricted.rules import ClosedDefences, EligibilityReading
from orchestrator.formats.unrestricted.state import (
    ANSWERING,
    Defence,
    DefenceStatus,
    Picture,
    PictureStatus,
    State,
)
from orchestrator.formats.unrestricted.validity import Outcome
from orchestrator.formats.unrestricted.weeks import TZDATA_VERSION, Week, local_day

ABSTENTION_SHARE = 5
"""At most one in so many pictures of the eligibility set may go unanswered (U1)."""
SECONDS_PER_PICTURE = 60
"""The slowest that a defence may be (U2)."""
_PRIZES = (TransferKind.BREAK_PRIZE, TransferKind.DEFENCE_PRIZE, TransferKind.RELEASED)
"""Transfers that depend on who is in which team."""
MAX_ZONE_SHIFT = timedelta(hours=28)
"""Midnight of a local day is at most so far from the instant of an event of that day; zones reach from -12 to +14."""

LONGEST_WEEK = timedelta(days=8, hours=1)
"""Seven days and a change of clocks; a zone that changes sides of the date line repeats a day."""

Objections = Iterator[str]


def problems(state: State, event: Any, at: datetime) -> list[Problem]:
    """Returns every reason why an event of this format may not happen at that time."""
    place = event.kind_in_words
    if at < state.at:
        return [Problem(place, f"is of {at.isoformat()}, and the ledger is at {state.at.isoformat()} already")]
    if state.is_over and not isinstance(event, events.PrizePaid):
        return [Problem(place, "the contest is over")]
    try:
        return [Problem(place, what) for what in _CHECKS[type(event)](state, event, at)]
    except KeyError as error:
        return [Problem(place, f"there is no {error.args[0]!r}")]


def vote_on(state: State, question: str, at: datetime) -> events.Vote:
    """Returns how the board voted on a question so far. Raises KeyError where it is about nothing."""
    teams, case = state.teams_of(question), case_of(question)
    today = at.date()
    eligible = state.board.eligible(case, teams, today)
    cast = {member: favour for member, favour in state.board.votes.get(question, {}).items() if member in eligible}
    return events.Vote(
        eligible=eligible,
        recused=state.board.recusals(case, teams, today),
        in_favour=sorted(member for member, favour in cast.items() if favour),
        against=sorted(member for member, favour in cast.items() if not favour),
    )


def question_of(event: Any) -> str:
    """Returns the question that an event decides by a vote, "" for any other event."""
    found = ""
    match event:
        case events.ReadabilityDecided():
            found = f"readable:{event.defence}"
        case events.DefencesStaked():
            found = stake_question(event.criteria)
        case events.AttackerAdmitted():
            found = f"admit:{event.team}"
        case events.ReportDecided():
            found = f"report:{event.picture}:{'withhold' if event.withhold else 'show'}"
        case events.PictureOverruled():
            found = f"overrule:{event.picture}:{event.class_name or events.INVALID}"
        case events.AppealRuled():
            found = f"appeal:{event.appeal}:{event.class_name or events.INVALID}"
        case events.PrizeWithheld():
            found = f"withhold:{event.award}"
    return found


def case_of(question: str) -> str:
    """Returns the case of a question, without the outcome that it asks about."""
    kind, _, subject = question.partition(":")
    return f"{kind}:{subject.partition(':')[0]}" if kind in {"appeal", "report", "overrule"} else question


def unnoted_conflicts(state: State, member: str, team: str) -> list[ConflictSource]:
    """Returns the computed conflicts of a member with a team that no event has noted."""
    people = state.board.person_of(member)
    noted = {each.source for each in state.board.conflicts.get((member, team), ())}
    return [each for each in computed_sources(people, state.people.get(team, ())) if each not in noted]


def _vote(state: State, question: str, vote: events.Vote, at: datetime, *, in_favour: bool = True) -> Objections:
    """Yields why a vote does not decide a question so. It is decided by more than half of those who voted."""
    found = vote_on(state, question, at)
    if found != vote:
        yield "the vote is not the one that was cast: who may vote, who is recused, or who did vote differs"
    needed, given = quorum(len(found.eligible)), len(found.in_favour) + len(found.against)
    ours, others = (found.in_favour, found.against) if in_favour else (found.against, found.in_favour)
    if given < needed:
        yield f"{given} voted on {question}, and {needed} of the {len(found.eligible)} who may vote have to"
    elif len(ours) <= len(others):
        yield f"{len(found.in_favour)} are in favour of {question} and {len(found.against)} against"


def _member(state: State, event: Any, member: str, question: str, at: datetime) -> Objections:
    """Yields why somebody does not act as a member of the board on a case: nobody acts as somebody else."""
    case, teams = case_of(question), state.teams_of(question)
    if event.actor != member:
        yield f"{event.actor} acts as {member}"
    if member not in state.board.members_of(case):
        yield f"{member} is not of the board"
    if reason := state.board.recusal(member, teams, at.date()):
        yield f"{member} is recused: {reason}"
    for team in sorted(teams):
        for source in unnoted_conflicts(state, member, team):
            yield f"{member} is recused: {source} ({team})"


# Weeks


def _week_opened(state: State, event: events.WeekOpened, at: datetime) -> Objections:
    last = next(reversed(state.weeks.values()), None)
    expected = state.opened_at if last is None else last.closes
    if state.week is not None:
        yield f"{state.week.id} is open"
    if event.week in state.weeks:
        yield f"{event.week} was opened before"
    if event.opens != expected:
        yield f"it opens at {event.opens.isoformat()}, and not where the week before closes"
    if not timedelta(0) < event.closes - event.opens <= LONGEST_WEEK:
        yield f"it closes at {event.closes.isoformat()}, which is no week after it opens"
    if event.opens > at:
        yield "it opens later"
    following = state.next_week()
    if event.tzdata == TZDATA_VERSION and following != Week(event.week, event.opens, event.closes):
        yield "it is not the week of the contest's calendar (U5)"


def _week_closed(state: State, event: events.WeekClosed, at: datetime) -> Objections:
    week = state.week
    if week is None or week.id != event.week:
        yield f"{event.week} is not open"
        return
    if at < week.closes:
        yield f"it closes at {week.closes.isoformat()} (U5)"
    if event.pictures != state.week_pictures:
        yield "it does not name exactly the pictures that were received in it"


# Defences


def _is(defence: Defence, *statuses: DefenceStatus) -> Objections:
    if defence.status not in statuses:
        yield f"{defence.id} is {defence.status}, and not {' or '.join(statuses)}"


def _active(state: State, defence: Defence) -> Objections:
    if not state.season.entries[defence.id].is_active:
        yield f"{defence.id} was withdrawn or disqualified"


def _readability_decided(state: State, event: events.ReadabilityDecided, at: datetime) -> Objections:
    yield from _is(state.defences[event.defence], DefenceStatus.RECEIVED)
    yield from _vote(state, question_of(event), event.vote, at, in_favour=event.readable)


def _defence_tested(state: State, event: events.DefenceTested, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.READABLE)
    yield from _active(state, defence)
    if not event.right + event.wrong + event.abstained + event.faults:
        yield "the eligibility set is empty"
    if event.accepted != len(defence.tested_on):
        yield f"it was asked about {event.accepted} accepted pictures, and there were {len(defence.tested_on)} (U2)"
    if unknown := [each for each in event.broken_by if each not in defence.tested_on]:
        yield f"{', '.join(unknown)} are not pictures that were accepted when the board found it readable"


def ineligible_because(state: State, event: events.DefenceTested) -> str:
    """Returns why a tested defence is not eligible (U1, U2), "" where it is. A fault counts as an abstention (U7)."""
    total = event.right + event.wrong + event.abstained + event.faults
    unanswered, most = event.abstained + event.faults, total // ABSTENTION_SHARE
    found = []
    if unanswered > most:
        found.append(f"it abstained on {unanswered} of {total} pictures of the eligibility set, and {most} are allowed")
    if state.rules.eligibility is EligibilityReading.PERFECT and event.wrong:
        found.append(f"it is wrong on {event.wrong} pictures of the eligibility set")
    if event.right < total - most:
        found.append(
            f"it is right on {event.right} of {total} pictures of the eligibility set, {total - most} are needed"
        )
    if event.broken_by:
        found.append(f"{len(event.broken_by)} accepted pictures break it")
    if event.seconds > SECONDS_PER_PICTURE * event.timed_pictures:
        found.append("it is slower than one picture a minute")
    if state.defences[event.defence].code_is_closed and state.rules.closed is ClosedDefences.REFUSED:
        found.append("it names no address of its code (U3)")
    return "; ".join(found)


def _defence_published(state: State, event: events.DefencePublished, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.ELIGIBLE)
    yield from _active(state, defence)
    if (event.digest, event.source) != (defence.digest, defence.source):
        yield "what is published is not what was received (U3)"


def _stakeable(state: State, name: str) -> Objections:
    defence = state.defences[name]
    yield from _is(defence, DefenceStatus.PUBLISHED)
    yield from _active(state, defence)
    if found := state.threatening(defence):
        yield f"{name} is broken unless the ruling on {', '.join(found)} changes (U4)"


def _defences_staked(state: State, event: events.DefencesStaked, at: datetime) -> Objections:
    for name in event.criteria:
        yield from _stakeable(state, name)
    if any(each.batch == event.batch for each in state.defences.values()):
        yield f"there is a batch {event.batch} already"
    yield from _vote(state, question_of(event), event.vote, at)
    yield from _same(state, event.transfers, board_stake(state, event.criteria))


def stake_question(defences: Any) -> str:
    """Returns the question whether to stake these defences together."""
    return f"stake:{'+'.join(sorted(defences))}"


def board_stake(state: State, defences: Iterable[str]) -> tuple[Transfer, ...] | Problem:
    """Returns the transfers that stake a batch, by the defences' ids; none in a contest that pays nothing.

    A ledger keeps `criteria` in no order of its own.
    """
    if state.books is None or state.rules.prizes is None:
        return ()
    return stake_by_board(state.books, sorted(defences), state.rules.prizes.per_break.units)


def team_stake(state: State, defence: str) -> tuple[Transfer, ...] | Problem:
    """Returns the transfers by which a team stakes its defence."""
    if state.books is None or state.rules.prizes is None:
        return Problem("stake", "nothing is paid in this contest")
    return stake_by_team(state.books, defence, state.rules.prizes.per_break, state.rules.prizes.per_break)


def _stake_paid(state: State, event: events.StakePaid, _: datetime) -> Objections:
    yield from _stakeable(state, event.defence)
    yield from _same(state, event.transfers, team_stake(state, event.defence))


def _answers_recorded(state: State, event: events.AnswersRecorded, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, *ANSWERING)
    if event.week not in state.closed_weeks:
        yield f"{event.week} is not closed, so that nobody may know its pictures (U5)"
        return
    strange = [each for each in event.answers if state.pictures.get(each) is None or each in defence.answers]
    strange += [each for each in event.answers if each not in strange and state.pictures[each].week != event.week]
    if strange:
        yield f"{', '.join(strange[:5])}: no pictures of {event.week} that wait for its answer"
    if wrong := {each for each in event.answers.values() if each is not None} - state.class_names:
        yield f"{', '.join(sorted(wrong))}: no class of this contest (U1)"
    if any(event.answers.get(each, "") is not None for each in event.faults):
        yield "a fault has an answer, or is on no picture of these (U7)"
    if any(event.answers.get(each) is None for each in event.other_seeds):
        yield "other seeds are recorded for a picture that it abstains on (U13)"


def _defence_broken(state: State, event: events.DefenceBroken, _: datetime) -> Objections:
    defence, picture = state.defences[event.defence], state.pictures[event.picture]
    if not picture.settled or not state.breaks(defence, picture):
        yield f"{picture.id} does not break {defence.id}: it needs a settled valid picture and the other class (U7)"
    if picture.id in defence.broken_by:
        yield "it is noted already"


def _defence_expired(state: State, event: events.DefenceExpired, at: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.STAKED)
    end = state.stake_ends(defence)
    if end is not None and at < end:
        yield f"it has to hold until {end.isoformat()} (U10)"
    elif end is not None and (waiting := [e for e in state.staked_defence(defence).unsettled if not e.ruled]):
        yield f"{waiting[0].picture} {waiting[0].reason}"


def _rejection_confirmed(state: State, event: events.RejectionConfirmed, at: datetime) -> Objections:
    defence, picture = state.defences[event.defence], state.pictures[event.picture]
    yield from _is(defence, DefenceStatus.STAKED, DefenceStatus.EXPIRED)
    if not state.awaits_confirmation(defence, picture):
        yield f"{picture.id} is not on the worklist of {defence.id} (U11)"
    if event.member in picture.members:
        yield f"{event.member} voted about {picture.id} before (U11)"
    yield from _member(state, event, event.member, f"overrule:{picture.id}", at)
    yield from _member(state, event, event.member, f"readable:{defence.id}", at)


def _defence_checked(state: State, event: events.DefenceChecked, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.EXPIRED)
    if left := state.worklist(defence):
        yield f"{len(left)} rejected pictures are not confirmed (U11)"


# Pictures


def _attacker_admitted(state: State, event: events.AttackerAdmitted, at: datetime) -> Objections:
    if not state.redacted and event.team not in state.season.teams:
        yield f"there is no team {event.team!r}"
        return
    if event.team in state.admitted:
        yield "it is admitted already"
    if bool(event.preprint) == (event.vote is not None):
        yield "give the address of its preprint, or the vote by which the board admits it (U4)"
    if event.vote is not None:
        yield from _vote(state, question_of(event), event.vote, at)


def _picture_received(state: State, event: events.PictureReceived, at: datetime) -> Objections:
    week, place = state.week, (event.team, event.day)
    if event.team not in state.admitted:
        yield f"{event.team} is not admitted: a preprint, or the board's admission, is needed (U4)"
    if not any(each.published_at for each in state.defences.values()):
        yield "no defence is published, so that there is nothing to break (U4)"
    if week is None or not week.opens <= at < week.closes:
        yield "no week is open at this time: close the one that is over first (U5)"
    if event.picture in state.pictures or (event.team, event.digest) in state.receipts:
        yield "it was received before"
    if state.uploads.get(place, 0) >= state.rules.uploads_per_day:
        yield f"{state.rules.uploads_per_day} pictures of {event.team} came on {event.day.isoformat()} already (U4)"
    midnight = datetime(event.day.year, event.day.month, event.day.day, 12, tzinfo=at.tzinfo)
    if abs(midnight - at) > MAX_ZONE_SHIFT:
        yield f"{event.day.isoformat()} is nowhere the day of {at.isoformat()}"
    elif state.tzdata == TZDATA_VERSION and event.day != local_day(at, state.zone):
        yield f"{event.day.isoformat()} is not the day in {state.rules.time_zone}"


def _picture_rated(state: State, event: events.PictureRated, _: datetime) -> Objections:
    picture = state.pictures[event.picture]
    yield from _published(picture)
    if any(each.rater == event.rater for each in picture.ratings):
        yield f"{event.rater} rated {picture.id} before (U6)"
    if event.appeal:
        appeal = state.appeals[event.appeal]
        if appeal.decided or not appeal.has_panel or appeal.picture != picture.id:
            yield f"no panel of {event.appeal} is asked about it"
        if len(appeal.panel) >= state.rules.validity.appeal_raters:
            yield "all raters of the panel answered (U8)"
        if any(each.rater == event.rater for each in appeal.panel):
            yield f"{event.rater} is of the panel already"
    elif picture.status is not PictureStatus.RATING:
        yield f"{picture.id} is {picture.status}, and nobody is asked about it (U6)"
    elif picture.ruling is not None and picture.ruling.outcome is Outcome.REPORTED:
        yield "it was reported, and waits for the board"
    yield from _asked_on(state, event.rater)
    yield from _answers(state, event.answers, picture.size)


def _rater_tested(state: State, event: events.RaterTested, _: datetime) -> Objections:
    record, rules = state.raters.get(event.rater, RaterRecord()), state.rules.raters
    yield from _asked_on(state, event.rater)
    yield from _class(state, event.shows)
    if event.pixels in record.seen:
        yield f"{event.rater} answered about it before"
    if event.practice != (record.practised < rules.practice_items):
        yield f"the first {rules.practice_items} are practice, and no later one is (U6)"
    yield from _answers(state, event.answers, PictureSize(event.height, event.width))


def _asked_on(state: State, rater: str) -> Objections:
    if rater in state.raters and state.raters[rater].is_removed:
        yield f"{rater} is asked no more: too many answers about pictures whose class is known were wrong (U6)"


def _answers(state: State, answers: Answers | None, size: PictureSize) -> Objections:
    """Yields why a rater's answers are none to what is asked about a picture of a size."""
    if answers is not None and not _fits(state, answers, size):
        document = answers.model_dump(mode="json")
        yield from (str(each) for each in state.questionnaire.problems(document, size))


def _fits(state: State, answers: Answers, size: PictureSize) -> bool:
    """Returns whether answers are what the questionnaire asks for; what is wrong with them says `problems`, slowly."""
    if answers.presence.keys() != state.class_names:
        return False
    asked = state.questionnaire.asked_about(answers.presence) is not None
    if (answers.box is not None, answers.statements is not None) != (asked, asked):
        return False
    box = answers.box
    return box is None or (box.right <= size.width and box.bottom <= size.height)


def _published(picture: Picture) -> Objections:
    if picture.status is PictureStatus.RECEIVED:
        yield f"{picture.id} is not public yet (U5)"
    if picture.withheld:
        yield f"{picture.id} is withheld"


def _report_decided(state: State, event: events.ReportDecided, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    if picture.ruling is None or picture.ruling.outcome is not Outcome.REPORTED:
        yield f"no report of {picture.id} waits for the board"
    yield from _vote(state, question_of(event), event.vote, at)


def _picture_overruled(state: State, event: events.PictureOverruled, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    yield from _published(picture)
    if picture.status not in (PictureStatus.VALID, PictureStatus.INVALID):
        yield f"{picture.id} is {picture.status}, and there is no ruling to change"
    if any(each in state.open_appeals for each in picture.appeals):
        yield "an appeal is open: decide that"
    if event.class_name == picture.class_name:
        yield "that is the ruling already"
    if picture.settled and picture.status is PictureStatus.VALID:
        yield "it is settled as valid, and prizes may have been paid for it: withhold those instead"
    yield from _class(state, event.class_name)
    yield from _vote(state, question_of(event), event.vote, at)


def _class(state: State, name: str | None) -> Objections:
    if name is not None and name not in state.class_names:
        yield f"{name!r} is no class of this contest"


def _picture_settled(state: State, event: events.PictureSettled, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    if picture.settled:
        yield f"{picture.id} is settled already"
    if picture.status not in (PictureStatus.VALID, PictureStatus.INVALID):
        yield f"{picture.id} is {picture.status}, and has no ruling"
    elif any(each in state.open_appeals for each in picture.appeals):
        yield "an appeal is open (U8)"
    elif not picture.withheld and (end := state.appeals_end(picture)) is not None and at < end:
        yield f"teams may appeal until {end.isoformat()} (U8)"


# Appeals


def _picture_appealed(state: State, event: events.PictureAppealed, at: datetime) -> Objections:
    picture, end = state.pictures[event.picture], state.appeals_end(state.pictures[event.picture])
    if event.appeal in state.appeals:
        yield "there is an appeal of this id already"
    if picture.status not in (PictureStatus.VALID, PictureStatus.INVALID) or picture.settled or picture.withheld:
        yield f"the ruling on {picture.id} cannot be appealed against"
    elif end is not None and at >= end:
        yield f"teams could appeal until {end.isoformat()} (U8)"
    if picture.appeals:
        yield "one appeal is heard about a picture, and there is one"
    hurt = {each.team for each in state.defences.values() if state.breaks(each, picture)}
    concerned = hurt if picture.status is PictureStatus.VALID else {picture.team}
    if event.team not in concerned:
        yield f"{event.team} is not concerned: a valid picture concerns whom it breaks, a rejected one its team (U8)"


def _panel_called(state: State, event: events.PanelCalled, at: datetime) -> Objections:
    appeal = state.appeals[event.appeal]
    if appeal.decided or appeal.has_panel:
        yield "it is decided, or its panel is called already"
    yield from _member(state, event, event.member, f"appeal:{appeal.id}", at)


def _appeal_ruled(state: State, event: events.AppealRuled, at: datetime) -> Objections:
    appeal = state.appeals[event.appeal]
    picture = state.pictures[appeal.picture]
    if appeal.decided:
        yield "it is decided already (U8)"
        return
    yield from _class(state, event.class_name)
    if event.vote is not None:
        yield from _vote(state, question_of(event), event.vote, at)
        return
    found = state.judge(picture).rule_on_appeal(appeal.panel, {each.rater for each in picture.ratings})
    if found.outcome is Outcome.UNDECIDED:
        expected = picture.class_name
    elif found.outcome in (Outcome.VALID, Outcome.INVALID):
        expected = found.class_name
    else:
        yield "its panel has not decided, and no vote of the board is given (U8)"
        return
    if event.class_name != expected:
        yield f"its panel finds {expected or events.INVALID}"


# The board


def _board_member_seated(state: State, event: events.BoardMemberSeated, at: datetime) -> Objections:
    taken = {*state.board.members, *(name for case in state.board.outside.values() for name in case)}
    if event.member in taken:
        yield f"{event.member} is the name of a member already"
    if event.case:
        teams = state.teams_of(event.case)
        if len(state.board.eligible(event.case, teams, at.date())) >= quorum(0):
            yield "enough members may vote on this case, so that nobody from outside is needed"
        people = {person for team in teams for person in state.people.get(team, ())}
        if computed_sources(person_key(event.person), people):
            yield f"{event.member} has a conflict with a team of this case"
    elif not state.redacted and not any(
        person_key(each) == person_key(event.person) for each in state.season.roles[Role.BOARD]
    ):
        yield "nobody of that id has the board's role"


def _conflict_noted(state: State, event: events.ConflictNoted, _: datetime) -> Objections:
    if not state.redacted and event.team not in state.season.teams:
        yield f"there is no team {event.team!r}"
    if (
        not state.redacted
        and event.source in COMPUTED
        and event.source not in unnoted_conflicts(state, event.member, event.team)
        and not (event.source is ConflictSource.ORGANIZATION and _may_be_told(state, event.member, event.team))
    ):
        yield "no such conflict follows from who they are, or it is noted already"
    if (event.until is not None) != (event.source is ConflictSource.CO_AUTHOR):
        yield "a conflict of co-authors ends, and no other does"


def _may_be_told(state: State, member: str, team: str) -> bool:
    """Returns whether a common organization may be noted that the ledger does not show: it has not all addresses.

    A site keeps people's addresses out of the ledger, and tells what follows from them. That only takes a vote away,
    and two other members may waive it.
    """
    noted = state.board.conflicts.get((member, team), ())
    people = {state.board.person_of(member), *state.people.get(team, ())}
    return any("@" not in each for each in people) and all(
        each.source is not ConflictSource.ORGANIZATION for each in noted
    )


def _conflict_waived(state: State, event: events.ConflictWaived, at: datetime) -> Objections:
    open_ = waivers_left(state.board.conflicts, event.member, event.team)
    if event.by == event.member:
        yield "nobody waives their own conflict (U8)"
    if event.actor != event.by:
        yield f"{event.actor} acts as {event.by}"
    if event.by not in state.board.members:
        yield f"{event.by} is not of the board"
    if reason := state.board.recusal(event.by, {event.team}, at.date()):
        yield f"{event.by} is recused: {reason}"
    if unnoted_conflicts(state, event.by, event.team):
        yield f"{event.by} is recused by a conflict that is not noted yet"
    if not open_ or any(event.by in each.waived_by for each in open_):
        yield "there is no computed conflict of theirs that may be waived, or it was waived by them before"


def _vote_cast(state: State, event: events.VoteCast, at: datetime) -> Objections:
    yield from _member(state, event, event.member, event.question, at)


# Money


def _same(
    state: State, records: Sequence[events.TransferRecord], due: tuple[Transfer, ...] | Waiting | Problem
) -> Objections:
    """Yields that transfers are not those that are due.

    Who shares a person and who gets no prize is not in a redacted ledger. There the shares of what is due may differ,
    and what has to hold is that the accounts have the money and nothing is moved twice.
    """
    if state.redacted and state.books is not None and isinstance(due, tuple):
        found = state.books.post_all(each.transfer() for each in records)
        if isinstance(found, Problem):
            yield str(found)
        elif bool(records) != bool(due) or any(each.kind not in _PRIZES for each in records):
            yield from _same_exactly(records, due)
        return
    yield from _same_exactly(records, due)


def _same_exactly(
    records: Sequence[events.TransferRecord], due: tuple[Transfer, ...] | Waiting | Problem
) -> Objections:
    if isinstance(due, Problem):
        yield str(due)
    elif isinstance(due, Waiting):
        yield due.reasons[0]
    elif tuple(each.transfer() for each in records) != due:
        yield "these are not the transfers that follow from the rules (U10)"


def transfers_for(state: State, cause: str, at: datetime) -> tuple[Transfer, ...] | Waiting:
    """Returns the transfers that follow from a cause now: none where they were made, or nothing is paid (U10).

    Raises:
        KeyError: there is no such defence, or no prize for so many days.
    """
    kind, _, subject = cause.partition(":")
    rules, books = state.rules.prizes, state.books
    if rules is None or books is None:
        return ()
    table = prize_table(rules.pool, rules.advances, state.rules.days_unbroken)
    staked = (state.staked_defence(each) for each in state.defences.values() if each.staked_at is not None)
    match kind:
        case "accounts":
            return () if books.transfers else open_accounts(rules.pool)
        case "stake":
            return _settled_stake(state, books, state.defences[subject], at)
        case "prize":
            days = int(subject)
            return defence_prize(books, days, table[days], staked, state.entrants(), at)
        case _:
            return end_contest(books, table, tuple(staked), state.entrants(), at)


def _settled_stake(state: State, books: Books, defence: Defence, at: datetime) -> tuple[Transfer, ...] | Waiting:
    """Returns what becomes of the stake on a defence (U9, U10)."""
    if defence.staked_at is None:
        return Waiting((f"{defence.id} is not staked",))
    staked = state.staked_defence(defence)
    if staked.unsettled and not staked.breaks:  # the board may yet find a rejected picture valid (U11)
        return Waiting((f"{staked.unsettled[0].picture} {staked.unsettled[0].reason}",))
    return settle_stake(books, staked, state.entrants(), at, state.rules.days_unbroken)


def _money_moved(state: State, event: events.MoneyMoved, at: datetime) -> Objections:
    if event.cause == "end" and (state.week is not None or state.unsettled):
        yield "a week is open, or a picture is not settled"
        return
    yield from _same(state, event.transfers, transfers_for(state, event.cause, at))


def _prize_paid(state: State, event: events.PrizePaid, _: datetime) -> Objections:
    if state.books is None:
        yield "nothing is paid in this contest"
    elif isinstance(found := pay(state.books, event.award, event.reference), Problem):
        yield str(found)


def _prize_withheld(state: State, event: events.PrizeWithheld, at: datetime) -> Objections:
    if state.books is None:
        yield "nothing is paid in this contest"
        return
    if isinstance(found := withhold(state.books, event.award, event.reason), Problem):
        yield str(found)
        return
    yield from _vote(state, question_of(event), event.vote, at)


_CHECKS: dict[type, Callable[[State, Any, datetime], Objections]] = {
    events.WeekOpened: _week_opened,
    events.WeekClosed: _week_closed,
    events.ReadabilityDecided: _readability_decided,
    events.DefenceTested: _defence_tested,
    events.DefencePublished: _defence_published,
    events.DefencesStaked: _defences_staked,
    events.StakePaid: _stake_paid,
    events.AnswersRecorded: _answers_recorded,
    events.DefenceBroken: _defence_broken,
    events.DefenceExpired: _defence_expired,
    events.RejectionConfirmed: _rejection_confirmed,
    events.DefenceChecked: _defence_checked,
    events.AttackerAdmitted: _attacker_admitted,
    events.PictureReceived: _picture_received,
    events.PictureRated: _picture_rated,
    events.RaterTested: _rater_tested,
    events.ReportDecided: _report_decided,
    events.PictureOverruled: _picture_overruled,
    events.PictureSettled: _picture_settled,
    events.PictureAppealed: _picture_appealed,
    events.PanelCalled: _panel_called,
    events.AppealRuled: _appeal_ruled,
    events.BoardMemberSeated: _board_member_seated,
    events.ConflictNoted: _conflict_noted,
    events.ConflictWaived: _conflict_waived,
    events.VoteCast: _vote_cast,
    events.MoneyMoved: _money_moved,
    events.PrizePaid: _prize_paid,
    events.PrizeWithheld: _prize_withheld,
}
