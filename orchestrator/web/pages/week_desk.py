"""What organizers do in an unrestricted contest: seat the board, admit teams by preprints, and note payments."""

from datetime import datetime
from functools import partial

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests import board_cases
from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import UsageError
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.money import format_units
from orchestrator.formats.unrestricted.state import DefenceStatus, State
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render
from orchestrator.web.weeks import REFUSED, attempt, contest_of


def desk(visit: Visit) -> HttpResponseBase:
    """What waits for organizers, with a form for each act."""
    contest, problem, now = contest_of(visit), "", visit.site.clock()
    if visit.request.method == "POST":
        problem = attempt(lambda at: _act(visit, contest, at), visit)
        if not problem:
            messages.success(visit.request, "It is on the record.")
            return redirect("organize-weeks")
    return render(
        visit,
        "weeks/desk.html.j2",
        problem=problem,
        status=REFUSED if problem else 200,
        short_cases=contest.read(lambda state: board_cases.short_cases(state, now)),
        unconfirmable=contest.read(lambda state: board_cases.unconfirmable_rejections(state, now)),
        **contest.read(waiting),
    )


def waiting(state: State) -> dict[str, object]:
    """Returns what waits for organizers, by the names that the page has for it."""
    of_cases = (who for seats in state.board.outside.values() for who in seats.values())
    seated = {*state.board.members.values(), *of_cases}
    unpaid = state.books.unpaid() if state.books else []
    return {
        "seated": sorted(state.board.members),
        "unseated": [each for each in state.season.roles[Role.BOARD].values() if person_key(each.id) not in seated],
        "not_admitted": [team for team in state.season.teams if team not in state.admitted],
        "not_staked": [each.id for each in state.defences.values() if each.status is DefenceStatus.PUBLISHED],
        "unpaid": [(each.id, each.team, format_units(each.amount, state.books.currency)) for each in unpaid]
        if state.books
        else [],
    }


def _act(visit: Visit, contest: UnrestrictedContest, at: datetime) -> None:
    sent, actor = visit.request.POST, visit.actor.person
    match sent.get("act", ""):
        case "seat":
            seat = {name: sent.get(name, "").strip() for name in ("person", "member", "case")}
            if seat["case"] and contest.read(lambda state: not board_cases.exists(state, seat["case"])):
                raise UsageError("there is no such case; its id is listed on this page")
            event = validated(events.BoardMemberSeated, actor=actor, **seat)
            contest.propose(event, at)
        case "admit":
            if not sent.get("preprint", "").strip():
                raise UsageError("give the address of the preprint; without one the board admits a team")
            team, preprint = sent.get("team", ""), sent["preprint"].strip()[:500]
            contest.act(partial(commands.admit_attacker, actor=actor, team=team, preprint=preprint), at)
        case "stake":
            reference = _reference(sent.get("reference", ""))
            defence = sent.get("defence", "")
            if contest.read(lambda state: defence not in state.defences):
                raise UsageError("there is no such defence; load the page again")
            contest.act(partial(commands.note_stake_paid, actor=actor, defence=defence, reference=reference), at)
        case "paid":
            reference = _reference(sent.get("reference", ""))
            event_paid = validated(events.PrizePaid, actor=actor, award=sent.get("award", ""), reference=reference)
            contest.propose(event_paid, at)
        case _:
            raise UsageError("nothing was chosen; choose one of the acts of this page")


def _reference(text: str) -> str:
    if not text.strip():
        raise UsageError("give the reference of the payment")
    return text.strip()[:200]
