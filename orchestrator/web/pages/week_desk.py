"""The organizers' desk of an unrestricted contest: seat the board, admit teams with preprints, record payments."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from orchestrator.application.contests import review_board_cases, unrestricted_views
from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import UsageError
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.money import format_units
from orchestrator.formats.unrestricted.state import DefenceStatus, State
from orchestrator.web.form_actions import attempt, form_status
from orchestrator.web.rights import Visit
from orchestrator.web.row_forms import Row, RowForm, row_links
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of

_REFERENCE_LIMIT, _LINE_LIMIT, _NAME_LIMIT = 200, 500, 64


class SeatForm(RowForm):
    """Seats a person with the board's role on the review board."""

    row_fields = ("person",)
    person = forms.CharField(widget=forms.HiddenInput)
    member = forms.CharField(
        max_length=_NAME_LIMIT,
        label="Name of <bdi>{}</bdi> on the record",
        help_text="It is published with votes. Choose a pseudonym such as b1, or, if teams are to declare conflicts "
        "with members whom they know, the name of the person.",
    )
    case = forms.CharField(
        max_length=_LINE_LIMIT,
        required=False,
        label="Only for the case",
        help_text="For somebody from outside, where too few members may vote: the id of the case. Empty for a member "
        "of the whole board.",
    )


class AdmissionForm(RowForm):
    """Records the preprint of a team, which may then attack (U4)."""

    row_fields = ("team",)
    team = forms.CharField(widget=forms.HiddenInput)
    preprint = forms.CharField(
        max_length=_LINE_LIMIT,
        label="Address of the preprint of <bdi>{}</bdi>",
        widget=forms.URLInput,
        error_messages={"required": "Give the address of the preprint; without one the board admits a team."},
    )


class _PaymentForm(RowForm):
    reference = forms.CharField(
        max_length=_REFERENCE_LIMIT,
        label="Reference of the payment for <bdi>{}</bdi>",
        error_messages={"required": "Give the reference of the payment."},
        help_text="Such as the number of the bank transfer. It is published.",
    )


class StakeForm(_PaymentForm):
    """Records the payment of a stake by a team on its own defence (U9)."""

    row_fields = ("defence",)
    defence = forms.CharField(widget=forms.HiddenInput)


class PrizeForm(_PaymentForm):
    """Records the payment of an award or a refund."""

    row_fields = ("award",)
    award = forms.CharField(widget=forms.HiddenInput)


def desk(visit: Visit) -> HttpResponseBase:
    """Shows what waits for the organizers, with a link to the page of each act."""
    contest, now = contest_of(visit), visit.site.clock()
    found = contest.read(waiting)
    own_seat = contest.read(lambda state: unrestricted_views.member_name(state, visit.actor.person))
    return render(
        visit,
        "weeks/desk.html.j2",
        seated=found["seated"],
        short_cases=contest.read(lambda state: review_board_cases.short_cases(state, now, own_seat)),
        unconfirmable=contest.read(lambda state: review_board_cases.unconfirmable_rejections(state, now, own_seat)),
        links={act: row_links(reverse(act), rows) for act, rows in _rows(found).items()},
    )


def seat(visit: Visit) -> HttpResponseBase:
    """Seats a person on the review board."""
    return _act_page(visit, "seat-member", SeatForm)


def admit(visit: Visit) -> HttpResponseBase:
    """Admits a team with a preprint to attack."""
    return _act_page(visit, "admit-team", AdmissionForm)


def stake(visit: Visit) -> HttpResponseBase:
    """Records that a team paid its stake."""
    return _act_page(visit, "record-stake", StakeForm)


def payment(visit: Visit) -> HttpResponseBase:
    """Records that an award or a refund was paid."""
    return _act_page(visit, "record-payment", PrizeForm)


def _rows(found: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Returns the rows of what `waiting` found, by the names of the pages of their acts."""
    return {
        "seat-member": [({"person": each.id}, each.name) for each in found["unseated"]],
        "admit-team": [({"team": each}, each) for each in found["not_admitted"]],
        "record-stake": [({"defence": each}, each) for each in found["not_staked"]],
        "record-payment": [({"award": each}, f"{amount} to {team}") for each, team, amount in found["unpaid"]],
    }


def _act_page(visit: Visit, act: str, kind: type[RowForm]) -> HttpResponseBase:
    """Shows the form of an act about one row, and does the act of a sent form.

    Without such a row, redirects to the list, or shows why the sent form was refused and what was typed into it.
    """
    contest, problem, now = contest_of(visit), "", visit.site.clock()
    form = kind.of_request(visit.request, _rows(contest.read(waiting))[act])
    if form.is_valid():
        problem = attempt(lambda: _act(visit, contest, form))
        if not problem:
            messages.success(visit.request, "It is on the record.")
            return redirect("organize-weeks")
    if not form.is_bound and not form.about:
        messages.info(visit.request, "That was done already. Here is what waits now.")
        return redirect("organize-weeks")
    own_seat = contest.read(lambda state: unrestricted_views.member_name(state, visit.actor.person))
    return render(
        visit,
        "weeks/desk_act.html.j2",
        act=act,
        form=form,
        problem=problem,
        status=form_status(form, problem),
        short_cases=contest.read(lambda state: review_board_cases.short_cases(state, now, own_seat)),
    )


def waiting(state: State) -> dict[str, Any]:
    """Returns what waits for the organizers, by the names of the template's variables."""
    seated = set(state.board.seated.values())
    unpaid = state.books.unpaid() if state.books else []
    return {
        "seated": sorted(state.board.members),
        "unseated": [each for each in state.season.roles[Role.BOARD].values() if person_key(each.id) not in seated],
        "not_admitted": review_board_cases.not_admitted(state),
        "attackers_waiting": review_board_cases.waiting_attackers(state),
        "not_staked": [each.id for each in state.defences.values() if each.status is DefenceStatus.PUBLISHED],
        "unpaid": [(each.id, each.team, format_units(each.amount, state.books.currency)) for each in unpaid]
        if state.books
        else [],
    }


def _act(visit: Visit, contest: UnrestrictedContest, form: RowForm) -> None:
    """Does the act of a valid form. Raises UsageError and Rejected."""
    said, actor, at = form.cleaned_data, visit.actor.person, visit.site.clock()
    match form:
        case SeatForm():
            if said["case"] and contest.read(lambda state: not review_board_cases.exists(state, said["case"])):
                raise UsageError("there is no such case; its id is listed on this page")
            contest.propose(validated(events.BoardMemberSeated, actor=actor, **said), at)
        case AdmissionForm():
            contest.act(partial(commands.admit_attacker, actor=actor, **said), at)
        case StakeForm():
            if contest.read(lambda state: said["defence"] not in state.defences):
                raise UsageError("there is no such defence; load the page again")
            contest.act(partial(commands.record_stake_payment, actor=actor, **said), at)
        case PrizeForm():
            contest.propose(validated(events.PrizePaid, actor=actor, **said), at)
