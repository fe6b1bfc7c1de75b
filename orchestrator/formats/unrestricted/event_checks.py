"""Checks whether an event is allowed now. Commands run them before they return an event, and the fold for each event.

So folding a forged ledger fails at the first event that the rules did not allow: a change of status that does not
exist, a vote of a recused member, a picture after the close of its week, a second payment. Each check yields sentences
that say what is wrong and, where somebody can correct it, how. An unknown id is a problem like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from orchestrator.domain.name_matching import person_key
from orchestrator.domain.text import counted_noun
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
    return_halves,
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
    HELD,
    Defence,
    DefenceStatus,
    Picture,
    PictureStatus,
    State,
)
from orchestrator.formats.unrestricted.validity import Outcome
from orchestrator.formats.unrestricted.week_calendar import TZDATA_VERSION, Week, local_day

ABSTENTION_SHARE = 5
"""A defence may leave one in this many pictures of the eligibility set unanswered (U1)."""
SECONDS_PER_PICTURE = 60
"""How long a defence may take for a picture, on average (U2)."""
_PRIZES = (TransferKind.BREAK_PRIZE, TransferKind.DEFENCE_PRIZE, TransferKind.RELEASED)
"""Transfers that depend on who is in which team."""
_AFTER_THE_END = (
    events.PrizePaid,
    events.PrizeWithheld,
    events.BoardMemberSeated,
    events.BoardMemberUnseated,
    events.ConflictNoted,
    events.ConflictWaived,
)
"""What may happen when the contest is over, apart from votes on withholding a prize and the return of its amount."""
MAX_ZONE_SHIFT = timedelta(hours=28)
"""Noon UTC of a date is less than this far from every instant of that date: zones reach from -12 to +14 hours."""

LONGEST_WEEK = timedelta(days=8, hours=1)
"""Seven days and a change of clocks, and a day more where a zone moves across the date line and repeats a date."""

Objections = Iterator[str]


def problems(state: State, event: Any, at: datetime) -> list[Problem]:
    """Returns every reason why an event of this format is not allowed at that time."""
    place = event.kind_in_words
    if at < state.at:
        return [Problem(place, f"its time is {at.isoformat()}, before the last event's, {state.at.isoformat()}")]
    if state.is_over and not _may_follow_the_end(event):
        return [Problem(place, "the contest is over; prizes can only be paid or withheld now")]
    try:
        return [Problem(place, what) for what in _CHECKS[type(event)](state, event, at)]
    except KeyError as error:
        return [Problem(place, f"there is no {error.args[0]!r} in this contest", "check the id")]


def _may_follow_the_end(event: Any) -> bool:
    """Returns whether an event pays or withholds a prize, or the board needs it for that."""
    match event:
        case events.VoteCast():
            return event.question.startswith("withhold:")
        case events.MoneyMoved():
            return event.cause == "end"
    return isinstance(event, _AFTER_THE_END)


def vote_on(state: State, question: str, at: datetime) -> events.Vote:
    """Returns how the board voted on a question so far. Raises KeyError where there is no such case."""
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
    """Returns the question whose vote an event records, "" for an event without a vote."""
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
    """Returns the case that a question belongs to: the question without the outcome that it proposes."""
    kind, _, subject = question.partition(":")
    return f"{kind}:{subject.partition(':')[0]}" if kind in {"appeal", "report", "overrule"} else question


def unrecorded_conflicts(state: State, member: str, team: str) -> list[ConflictSource]:
    """Returns the computed conflicts of a member with a team that the ledger does not record yet."""
    person = state.board.names.get(member, "")
    recorded = {each.source for each in state.board.conflicts.get((member, team), ())}
    return [each for each in computed_sources(person, state.people.get(team, ())) if each not in recorded]


def _vote(state: State, question: str, vote: events.Vote, at: datetime, *, in_favour: bool = True) -> Objections:
    """Yields why the votes on a question do not decide it for (or against) it: more than half of them have to."""
    found = vote_on(state, question, at)
    if found != vote:
        yield "the votes differ from those in the ledger: in who may vote, who is recused, or who voted"
    eligible, given = len(found.eligible), len(found.in_favour) + len(found.against)
    needed = quorum(eligible)
    ours, others = (found.in_favour, found.against) if in_favour else (found.against, found.in_favour)
    if given < needed:
        remedy = "ask the others to vote" if eligible >= needed else "seat a member from outside for this case"
        yield f"{given} of {counted_noun(eligible, 'member')} voted on {question}, and {needed} have to; {remedy}"
    elif len(ours) <= len(others):
        side = "for" if in_favour else "against"
        votes = f"{len(found.in_favour)} voted for {question} and {len(found.against)} against"
        yield f"{votes}; more than half have to vote {side} it"


def _member(state: State, event: Any, member: str, question: str, at: datetime) -> Objections:
    """Yields why a member of the board may not act on a case. Nobody may act for another member."""
    case, teams = case_of(question), state.teams_of(question)
    if event.actor != member:
        yield _acts_for(event.actor, member)
    if member not in state.board.members_of(case):
        yield f"{member} has no seat on the review board for this case; organizers give seats"
    if reason := state.board.recusal(member, teams, at.date()):
        yield _recused(member, reason)
    for team in sorted(teams):
        for source in unrecorded_conflicts(state, member, team):
            yield _recused(member, f"{source} ({team})")


def _acts_for(actor: str, member: str) -> str:
    return f"{actor} cannot act for {member}; each member acts in their own name"


def _recused(member: str, reason: str) -> str:
    return f"{member} is recused because of a conflict of interest: {reason}; a member without one has to act"


# Weeks


def _week_opened(state: State, event: events.WeekOpened, at: datetime) -> Objections:
    last = state.last_week
    if state.week is not None:
        yield f"the week {state.week.id} is still open; close it first"
    if event.week in state.weeks:
        yield f"the week {event.week} was already opened"
    if last is None and event.opens != state.opened_at:
        yield f"the first week opens at {event.opens.isoformat()}, and not when the contest was opened"
    elif last is not None and event.opens != last.closes:
        yield f"the week opens at {event.opens.isoformat()}, and the week before closes at {last.closes.isoformat()}"
    if not timedelta(0) < event.closes - event.opens <= LONGEST_WEEK:
        yield f"the week lasts {event.closes - event.opens}; it has to last more than 0 and at most {LONGEST_WEEK}"
    if event.opens > at:
        yield f"the week opens at {event.opens.isoformat()}, after the time of this event, {at.isoformat()}"
    following = state.next_week()
    if event.tzdata == TZDATA_VERSION and following != Week(event.week, event.opens, event.closes):
        due = f"the next week is {following.id}, until {following.closes.isoformat()}" if following else "none follows"
        yield f"this is not the next week of the contest's calendar (U5): {due}"


def _week_closed(state: State, event: events.WeekClosed, at: datetime) -> Objections:
    week = state.week
    if week is None or week.id != event.week:
        yield f"the week {event.week} is not open"
        return
    if at < week.closes:
        yield f"the week closes only at {week.closes.isoformat()} (U5)"
    if event.pictures != state.week_pictures:
        yield "the event does not list exactly the pictures that were received in this week"


# Defences


def _is(defence: Defence, *statuses: DefenceStatus) -> Objections:
    if defence.status not in statuses:
        yield f"{defence.id} is {defence.status}; it has to be {' or '.join(statuses)}"


def _active(state: State, defence: Defence) -> Objections:
    if not state.season.entries[defence.id].is_active:
        yield f"{defence.id} was withdrawn or disqualified, and does not take part any more"


def _readability_decided(state: State, event: events.ReadabilityDecided, at: datetime) -> Objections:
    yield from _is(state.defences[event.defence], DefenceStatus.RECEIVED)
    yield from _vote(state, question_of(event), event.vote, at, in_favour=event.readable)


def _defence_tested(state: State, event: events.DefenceTested, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.READABLE)
    yield from _active(state, defence)
    if not event.right + event.wrong + event.abstained + event.faults:
        yield "the test has no picture of the eligibility set"
    if event.accepted != len(defence.tested_on):
        asked = counted_noun(event.accepted, "accepted picture")
        yield f"{defence.id} was asked about {asked}, and has to be asked about {len(defence.tested_on)} (U2)"
    if unknown := [each for each in event.broken_by if each not in defence.tested_on]:
        yield f"not accepted when the board found {defence.id} readable: {', '.join(unknown)} (U2)"


def ineligible_because(state: State, event: events.DefenceTested) -> str:
    """Returns why a tested defence is not eligible (U1, U2), "" if it is. A fault counts as an abstention (U7)."""
    total = event.right + event.wrong + event.abstained + event.faults
    unanswered, most = event.abstained + event.faults, total // ABSTENTION_SHARE
    found = []
    if unanswered > most:
        found.append(
            f"it abstained on, or failed at, {unanswered} of {total} pictures of the eligibility set, "
            f"and at most {most} are allowed"
        )
    if state.rules.eligibility is EligibilityReading.PERFECT and event.wrong:
        found.append(f"it labels {counted_noun(event.wrong, 'picture')} of the eligibility set as the wrong class")
    if event.right < total - most:
        found.append(
            f"it labels {event.right} of {total} pictures of the eligibility set correctly, "
            f"and at least {total - most} are needed"
        )
    if event.broken_by:
        found.append(f"{counted_noun(len(event.broken_by), 'accepted picture')} would break it")
    if event.seconds > SECONDS_PER_PICTURE * event.timed_pictures:
        found.append("it takes more than a minute for a picture on average")
    if state.defences[event.defence].code_is_closed and state.rules.closed is ClosedDefences.REFUSED:
        found.append("it gives no address of its code (U3)")
    return "; ".join(found)


def _defence_published(state: State, event: events.DefencePublished, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.ELIGIBLE)
    yield from _active(state, defence)
    if (event.digest, event.source) != (defence.digest, defence.source):
        yield "the digest or the address of the code is not the one that was received (U3)"


def _stakeable(state: State, name: str) -> Objections:
    defence = state.defences[name]
    yield from _is(defence, DefenceStatus.PUBLISHED)
    yield from _active(state, defence)
    if found := state.threatening(defence):
        yield f"{name} cannot be staked: {', '.join(found)} will break it unless the ruling changes (U4)"


def _defences_staked(state: State, event: events.DefencesStaked, at: datetime) -> Objections:
    for name in event.criteria:
        yield from _stakeable(state, name)
    if any(each.batch == event.batch for each in state.defences.values()):
        yield f"there is already a batch {event.batch}; choose another name"
    yield from _vote(state, question_of(event), event.vote, at)
    yield from _same(state, event.transfers, board_stake(state, event.criteria))


def stake_question(defences: Any) -> str:
    """Returns the question on which the board votes to stake these defences together."""
    return f"stake:{'+'.join(sorted(defences))}"


def board_stake(state: State, defences: Iterable[str]) -> tuple[Transfer, ...] | Problem:
    """Returns the transfers that stake a batch, in the order of the defences' ids; none in a contest without prizes.

    The caller's order does not count, because a ledger does not keep that of `criteria`.
    """
    if state.books is None or state.rules.prizes is None:
        return ()
    return stake_by_board(state.books, sorted(defences), state.rules.prizes.per_break.units)


def team_stake(state: State, defence: str) -> tuple[Transfer, ...] | Problem:
    """Returns the transfers by which a team stakes its defence."""
    if state.books is None or state.rules.prizes is None:
        return Problem("stake", "this contest has no prizes, so teams pay no stakes", "ask the board to stake it")
    return stake_by_team(state.books, defence, state.rules.prizes.per_break, state.rules.prizes.per_break)


def _stake_paid(state: State, event: events.StakePaid, _: datetime) -> Objections:
    yield from _stakeable(state, event.defence)
    yield from _same(state, event.transfers, team_stake(state, event.defence))


def _answers_recorded(state: State, event: events.AnswersRecorded, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, *ANSWERING, *HELD)
    if event.week not in state.closed_weeks:
        yield f"the week {event.week} is not closed, and its pictures are secret until then (U5)"
        return
    strange = [each for each in event.answers if state.pictures.get(each) is None or each in defence.answers]
    known = [state.pictures[each] for each in event.answers if each not in strange]
    strange += [each.id for each in known if each.week != event.week or not state.answers_at_stage(defence, each)]
    if strange:
        yield f"{', '.join(strange[:5])}: not pictures of {event.week} that {defence.id} still has to answer"
    for wrong in sorted({each for each in event.answers.values() if each is not None} - state.class_names):
        yield _not_a_class(state, wrong)
    if any(event.answers.get(each, "") is not None for each in event.faults):
        yield "a picture in `faults` has to be in `answers`, with null as its answer (U7)"
    if any(event.answers.get(each) is None for each in event.other_seeds):
        yield "a picture in `other_seeds` has to be one that the defence labels with its first seed (U13)"


def _defence_broken(state: State, event: events.DefenceBroken, _: datetime) -> Objections:
    defence, picture = state.defences[event.defence], state.pictures[event.picture]
    if not picture.settled or not state.breaks(defence, picture):
        yield (
            f"{picture.id} does not break {defence.id}: the picture has to be settled as valid, and the answer has "
            "to be one that the rules count as a break (U7)"
        )
    if picture.id in defence.broken_by:
        yield f"the ledger already records that {picture.id} breaks {defence.id}"


def _defence_expired(state: State, event: events.DefenceExpired, at: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.STAKED)
    end = state.stake_ends(defence)
    if end is not None and at < end:
        yield f"{defence.id} has to hold until {end.isoformat()} (U10)"
    elif end is not None and (waiting := [e for e in state.staked_defence(defence).unsettled if not e.ruled]):
        yield f"{waiting[0].picture} {waiting[0].reason}"


def _rejection_confirmed(state: State, event: events.RejectionConfirmed, at: datetime) -> Objections:
    defence, picture = state.defences[event.defence], state.pictures[event.picture]
    if not state.awaits_confirmation(defence, picture):
        yield f"{picture.id} is not a rejected picture that the board has to confirm for {defence.id} (U11)"
    if event.member in picture.members:
        yield f"{event.member} voted about {picture.id}; another member has to confirm its rejection (U11)"
    yield from _member(state, event, event.member, f"overrule:{picture.id}", at)
    yield from _member(state, event, event.member, f"readable:{defence.id}", at)


def _defence_checked(state: State, event: events.DefenceChecked, _: datetime) -> Objections:
    defence = state.defences[event.defence]
    yield from _is(defence, DefenceStatus.EXPIRED)
    if left := state.worklist(defence):
        yield f"the board has to confirm the rejection of {counted_noun(len(left), 'more picture')} first (U11)"


# Pictures


def _attacker_admitted(state: State, event: events.AttackerAdmitted, at: datetime) -> Objections:
    if not state.redacted and event.team not in state.season.teams:
        yield f"there is no team {event.team!r} in this contest"
        return
    if event.team in state.admitted:
        yield f"{event.team} is already admitted"
    if bool(event.preprint) == (event.vote is not None):
        yield "give either the address of the team's preprint or the vote by which the board admits it, not both (U4)"
    if event.vote is not None:
        yield from _vote(state, question_of(event), event.vote, at)


def _picture_received(state: State, event: events.PictureReceived, at: datetime) -> Objections:
    week, place = state.week, (event.team, event.day)
    if event.team not in state.admitted:
        yield f"{event.team} is not admitted; send the organizers a preprint, or ask the board to admit the team (U4)"
    if not any(each.published_at for each in state.defences.values()):
        yield "no defence is published yet; wait until there is one to attack (U4)"
    if week is None or not week.opens <= at < week.closes:
        yield "no week is open at this time: the last week is over, or the next one was not opened yet (U5)"
    if event.picture in state.pictures or (event.team, event.digest) in state.receipts:
        yield "this picture was already received"
    if state.uploads.get(place, 0) >= state.rules.uploads_per_day:
        received = counted_noun(state.rules.uploads_per_day, "picture")
        limit = f"{event.team} submitted {received} on {event.day.isoformat()}, and may not submit more that day (U4)"
        yield f"{limit}; the next day begins at midnight in {state.rules.time_zone}"
    noon = datetime(event.day.year, event.day.month, event.day.day, 12, tzinfo=at.tzinfo)
    if abs(noon - at) > MAX_ZONE_SHIFT:
        yield f"{event.day.isoformat()} is not the date of {at.isoformat()} in any time zone"
    elif state.tzdata == TZDATA_VERSION and event.day != local_day(at, state.zone):
        yield f"{event.day.isoformat()} is not the date in {state.rules.time_zone} at {at.isoformat()}"


def _picture_rated(state: State, event: events.PictureRated, _: datetime) -> Objections:
    picture = state.pictures[event.picture]
    yield from _published(picture)
    if any(each.rater == event.rater for each in picture.ratings):
        yield f"{event.rater} already rated {picture.id} (U6)"
    if event.appeal:
        appeal = state.appeals[event.appeal]
        if appeal.decided or not appeal.has_panel or appeal.picture != picture.id:
            yield f"the appeal {event.appeal} does not ask raters about {picture.id}"
        if len(appeal.panel) >= state.rules.validity.appeal_raters:
            yield "all raters of the panel have answered (U8)"
        if any(each.rater == event.rater for each in appeal.panel):
            yield f"{event.rater} already answered for this panel"
    elif picture.status is not PictureStatus.RATING:
        yield f"{picture.id} is {picture.status}; raters are not asked about it now (U6)"
    elif picture.ruling is not None and picture.ruling.outcome is Outcome.REPORTED:
        yield f"{picture.id} was reported, and waits for the decision of the board"
    yield from _asked_on(state, event.rater)
    yield from _answers(state, event.answers, picture.size)


def _rater_tested(state: State, event: events.RaterTested, _: datetime) -> Objections:
    record, rules = state.raters.get(event.rater, RaterRecord()), state.rules.raters
    yield from _asked_on(state, event.rater)
    yield from _class(state, event.shows)
    if event.pixels in record.seen:
        yield f"{event.rater} already answered about this picture"
    if event.practice != (record.practised < rules.practice_items):
        yield f"only the first {rules.practice_items} test pictures of a rater are practice, and all of them are (U6)"
    yield from _answers(state, event.answers, PictureSize(event.height, event.width))


def _asked_on(state: State, rater: str) -> Objections:
    if rater in state.raters and state.raters[rater].is_removed:
        yield f"{rater} gets no more pictures: too many answers about pictures whose class is known were wrong (U6)"


def _answers(state: State, answers: Answers | None, size: PictureSize) -> Objections:
    """Yields why a rater's answers do not fit the questions about a picture of this size."""
    if answers is not None and not _fits(state, answers, size):
        document = answers.model_dump(mode="json")
        yield from (str(each) for each in state.questionnaire.problems(document, size))


def _fits(state: State, answers: Answers, size: PictureSize) -> bool:
    """Returns whether answers fit the questionnaire. `Questionnaire.problems` says why they do not, but is slow."""
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
        yield f"the board withheld {picture.id}"


def _report_decided(state: State, event: events.ReportDecided, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    if picture.ruling is None or picture.ruling.outcome is not Outcome.REPORTED:
        yield f"no report about {picture.id} waits for the decision of the board"
    yield from _vote(state, question_of(event), event.vote, at)


def _picture_overruled(state: State, event: events.PictureOverruled, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    yield from _published(picture)
    if picture.ruled_at is None:
        yield f"{picture.id} is {picture.status}, and has no ruling yet that the board could change"
    if state.has_open_appeal(picture):
        yield f"an appeal about {picture.id} is open; decide the appeal instead"
    if event.class_name == picture.class_name:
        yield f"the ruling on {picture.id} is already this one"
    if picture.settled and picture.status is PictureStatus.VALID:
        yield f"{picture.id} is settled as valid, and prizes may have been paid for it; withhold those prizes instead"
    yield from _class(state, event.class_name)
    yield from _vote(state, question_of(event), event.vote, at)


def _class(state: State, name: str | None) -> Objections:
    if name is not None and name not in state.class_names:
        yield _not_a_class(state, name)


def _not_a_class(state: State, name: str) -> str:
    return f"{name!r} is not a class of this contest, which has {' and '.join(sorted(state.class_names))} (U1)"


def _picture_settled(state: State, event: events.PictureSettled, at: datetime) -> Objections:
    picture = state.pictures[event.picture]
    if picture.settled:
        yield f"{picture.id} is already settled"
    if picture.ruled_at is None:
        yield f"{picture.id} is {picture.status}, and has no ruling yet"
    elif state.has_open_appeal(picture):
        yield f"an appeal about {picture.id} is open; it has to be decided first (U8)"
    elif not picture.withheld and (end := state.appeals_end(picture)) is not None and at < end:
        yield f"teams may appeal until {end.isoformat()} (U8)"


# Appeals


def _picture_appealed(state: State, event: events.PictureAppealed, at: datetime) -> Objections:
    picture, end = state.pictures[event.picture], state.appeals_end(state.pictures[event.picture])
    if event.appeal in state.appeals:
        yield f"there is already an appeal with the id {event.appeal}"
    if end is None or picture.settled or picture.withheld:
        yield f"nobody can appeal about {picture.id}: it has no ruling yet, is settled, or the board withheld it (U8)"
    elif at >= end:
        yield f"the time to appeal ended at {end.isoformat()} (U8)"
    if picture.appeals:
        yield f"there was already an appeal about {picture.id}, and only one is allowed against a ruling"
    concerned = state.teams_broken_by(picture) if picture.status is PictureStatus.VALID else {picture.team}
    if event.team not in concerned:
        may = "teams whose defence it breaks" if picture.status is PictureStatus.VALID else "the team that submitted it"
        yield f"{event.team} may not appeal about {picture.id}, which is {picture.status}: only {may} may (U8)"


def _panel_called(state: State, event: events.PanelCalled, at: datetime) -> Objections:
    appeal = state.appeals[event.appeal]
    if appeal.decided or appeal.has_panel:
        yield f"the appeal {appeal.id} is decided, or its panel was already called"
    yield from _member(state, event, event.member, f"appeal:{appeal.id}", at)


def _appeal_ruled(state: State, event: events.AppealRuled, at: datetime) -> Objections:
    appeal = state.appeals[event.appeal]
    picture = state.pictures[appeal.picture]
    if appeal.decided:
        yield f"the appeal {appeal.id} is already decided (U8)"
        return
    yield from _class(state, event.class_name)
    if event.vote is not None:
        yield from _vote(state, question_of(event), event.vote, at)
        return
    found = state.panel_ruling(appeal)
    if (end := state.board_decides_until(appeal)) is not None:
        expected = picture.class_name
        if at < end:
            yield f"the panel of {appeal.id} does not agree, and the board may decide until {end.isoformat()} (U8)"
    elif found.outcome in (Outcome.VALID, Outcome.INVALID):
        expected = found.class_name
    else:
        yield f"the panel of {appeal.id} has not decided, and the event has no vote of the board (U8)"
        return
    if event.class_name != expected:
        yield f"the panel of {appeal.id} decided for {expected or events.INVALID}"


# The board


def _board_member_seated(state: State, event: events.BoardMemberSeated, at: datetime) -> Objections:
    board, person = state.board, person_key(event.person) if event.person else ""
    # Under another name a member could vote twice, or about a case from which a declared conflict recuses them.
    own = board.name_of(person)
    if board.names.get(event.member, person) != person:
        yield f"another person is {event.member} on the record; choose another name"
    elif own not in ("", event.member):
        yield f"this person is {own} on the record; seat them under this name, so that nobody votes twice (U8)"
    elif event.member in board.members_of(event.case):
        yield f"{event.member} already has a seat{' in this case' if event.case else ''}"
    if event.case:
        teams = state.teams_of(event.case)
        if (eligible := len(board.eligible(event.case, teams, at.date()))) >= quorum(0):
            yield f"{eligible} members may vote on this case; others are seated only where fewer than {quorum(0)} may"
        people = {person for team in teams for person in state.people.get(team, ())}
        if computed_sources(person, people) or board.recusal(event.member, teams, at.date()):
            yield f"{event.member} has a conflict of interest with a team of this case; seat another person"
    if not state.redacted and person not in state.board_keys():
        yield "nobody with this id has the board's role; give them the role first"


def _board_member_unseated(state: State, event: events.BoardMemberUnseated, _: datetime) -> Objections:
    if event.member not in state.board.seated:
        yield f"{event.member} has no seat on the board"
    elif state.board.names[event.member] in state.board_keys():
        yield f"{event.member} still has the board's role; take the role away, and the seat ends with it"


def _conflict_noted(state: State, event: events.ConflictNoted, _: datetime) -> Objections:
    if not state.redacted and event.team not in state.season.teams:
        yield f"there is no team {event.team!r} in this contest"
    if (
        not state.redacted
        and event.source in COMPUTED
        and event.source not in unrecorded_conflicts(state, event.member, event.team)
        and not (event.source is ConflictSource.ORGANIZATION and _may_be_told(state, event.member, event.team))
    ):
        yield f"{event.member} has no computed conflict of this kind with {event.team}, or it is already recorded"
    if (event.until is not None) != (event.source is ConflictSource.CO_AUTHOR):
        yield "a conflict of co-authors has to have its last day in `until`, and any other conflict must not have one"


def _may_be_told(state: State, member: str, team: str) -> bool:
    """Returns whether a common organization may be recorded that the ledger's addresses do not show.

    A site keeps people's addresses out of the ledger, and only records the conflicts that it computes from them. Such
    an event can only take a vote away, and two other members may waive the conflict.
    """
    recorded = state.board.conflicts.get((member, team), ())
    people = {state.board.names.get(member, ""), *state.people.get(team, ())}
    return any("@" not in each for each in people) and all(
        each.source is not ConflictSource.ORGANIZATION for each in recorded
    )


def _conflict_waived(state: State, event: events.ConflictWaived, at: datetime) -> Objections:
    open_ = waivers_left(state.board.conflicts, event.member, event.team)
    if event.by == event.member:
        yield "members cannot waive their own conflicts; ask two other members (U8)"
    if event.actor != event.by:
        yield _acts_for(event.actor, event.by)
    if event.by not in state.board.members:
        yield f"{event.by} has no seat on the review board; organizers give seats"
    if reason := state.board.recusal(event.by, {event.team}, at.date()):
        yield _recused(event.by, reason)
    if unrecorded_conflicts(state, event.by, event.team):
        yield f"{event.by} has a conflict with {event.team} that is not recorded yet; a member without one has to act"
    if not open_ or any(event.by in each.waived_by for each in open_):
        yield f"{event.member} has no conflict with {event.team} that can be waived, or {event.by} already waived it"


def _vote_cast(state: State, event: events.VoteCast, at: datetime) -> Objections:
    yield from _member(state, event, event.member, event.question, at)


# Money


def _same(
    state: State, records: Sequence[events.TransferRecord], due: tuple[Transfer, ...] | Waiting | Problem
) -> Objections:
    """Yields why transfers are not those that are due.

    A redacted ledger does not show which teams share a person, nor who gets no prize. There the shares may differ from
    those computed here, and it is only checked that the accounts hold the money and that nothing is moved twice.
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
        yield "the transfers are not those that the rules require (U10)"


def transfers_for(state: State, cause: str, at: datetime) -> tuple[Transfer, ...] | Waiting:
    """Returns the transfers that a cause requires now; none where they were made, or the contest has no prizes (U10).

    Raises:
        KeyError: there is no such defence, or no prize for this number of days.
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
        case _ if state.is_over:
            return return_halves(books)
        case _:
            return end_contest(books, table, tuple(staked), state.entrants(), at)


def _settled_stake(state: State, books: Books, defence: Defence, at: datetime) -> tuple[Transfer, ...] | Waiting:
    """Returns what becomes of the stake on a defence (U9, U10)."""
    if defence.staked_at is None:
        return Waiting((f"{defence.id} is not staked",))
    return settle_stake(books, state.staked_defence(defence), state.entrants(), at, state.rules.days_unbroken)


def _money_moved(state: State, event: events.MoneyMoved, at: datetime) -> Objections:
    if event.cause == "end" and (state.week is not None or state.unsettled):
        yield "the contest cannot end while a week is open or a picture is not settled"
        return
    yield from _same(state, event.transfers, transfers_for(state, event.cause, at))


def _prize_paid(state: State, event: events.PrizePaid, _: datetime) -> Objections:
    if state.books is None:
        yield "this contest has no prizes"
    elif isinstance(found := pay(state.books, event.award, event.reference), Problem):
        yield str(found)


def _prize_withheld(state: State, event: events.PrizeWithheld, at: datetime) -> Objections:
    if state.books is None:
        yield "this contest has no prizes"
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
    events.BoardMemberUnseated: _board_member_unseated,
    events.ConflictNoted: _conflict_noted,
    events.ConflictWaived: _conflict_waived,
    events.VoteCast: _vote_cast,
    events.MoneyMoved: _money_moved,
    events.PrizePaid: _prize_paid,
    events.PrizeWithheld: _prize_withheld,
}
