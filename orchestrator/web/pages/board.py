"""The review board's pages in an unrestricted contest: cases, votes, decisions, confirmations, conflicts (U8, U9, U11).

`review_board_cases` makes every list, so a member's pages never show a case in which that member has a conflict.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from orchestrator.application.contests import review_board_cases, review_board_conflicts, unrestricted_views
from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.review_board_cases import Case
from orchestrator.application.contests.review_board_conflicts import DECLARED, MemberConflict
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.grading.attack_pictures import picture_png
from orchestrator.errors import UsageError
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.event_checks import case_of
from orchestrator.formats.unrestricted.recusal import SOURCE_WORDS, ConflictSource
from orchestrator.web import unrestricted_mails
from orchestrator.web.file_responses import png
from orchestrator.web.form_actions import attempt, form_status
from orchestrator.web.organizer_forms import ReasonField
from orchestrator.web.pages import errors
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.row_forms import Row, RowForm, row_links
from orchestrator.web.team_forms import CHOOSE, REASON_LIMIT
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of


class ReasonsForm(forms.Form):
    """The reasons for everything that a case may be decided by, each in a field with the name of its question.

    All are in the page's one form, so that a member who votes or asks for something else does not lose their text. None
    is marked as required, because a browser would then let nobody vote without it.
    """

    use_required_attribute = False

    def __init__(self, labels: Mapping[str, str], *args: object, decided: str = "", **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # whatever Django's takes
        for number, (question, label) in enumerate(labels.items(), 1):
            field = ReasonField(
                required=question == decided,
                label=label,
                help_text="Everybody reads it. For a staking, it answers the criteria of the contest.",
            )
            field.widget.attrs["id"] = f"reason-{number}"  # a question may have blanks
            self.fields[question] = field

    @classmethod
    def of_case(cls, found: Case, *args: object, **kwargs: Any) -> Self:
        """Returns the form of a case. What the votes say of readability is one choice alone, and needs no words."""
        labels = {each.question: f"Reason: {each.words}" for each in found.choices}
        return cls({found.id: "Reason"} if found.id.startswith("readable:") else labels, *args, **kwargs)


class WaiverForm(RowForm):
    """Waives a computed conflict of another member as a coincidence."""

    row_fields = ("member", "team")
    member = forms.CharField(widget=forms.HiddenInput)
    team = forms.CharField(widget=forms.HiddenInput)
    reason = forms.CharField(max_length=REASON_LIMIT, label="Why it is none")


class OwnConflictForm(forms.Form):
    """Declares the member's own conflict with a team."""

    team = forms.ChoiceField(label="Team")
    source = forms.ChoiceField(label="Why", choices=[CHOOSE, *((each.value, SOURCE_WORDS[each]) for each in DECLARED)])

    def __init__(self, teams: list[str], *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # passed on to Django's form
        self.fields["team"].choices = [CHOOSE, *((each, each) for each in teams)]  # type: ignore[attr-defined]


def cases(visit: Visit) -> HttpResponseBase:
    """Lists the cases that wait for this member. With several chosen defences, redirects to their joint case."""
    contest, now = contest_of(visit), visit.site.clock()
    member = _member(visit, contest)
    together = visit.request.GET.getlist("defence")
    if len(together) > 1 and all(":" not in each and "+" not in each for each in together):
        return redirect("board-case", case=f"stake:{'+'.join(sorted(together))}")
    waiting = contest.read(lambda state: review_board_cases.waiting_cases(state, member, now) if member else {})
    defending = contest.read(lambda state: review_board_cases.defending_teams(state, member, now) if member else [])
    undecidable = contest.read(lambda state: review_board_cases.undecidable_cases(state, member, now) if member else [])
    return render(
        visit,
        "weeks/cases.html.j2",
        member=member,
        waiting=waiting,
        defending=defending,
        undecidable=undecidable,
    )


@limited(RequestKind.RATING)
def case(visit: Visit, case: str) -> HttpResponseBase:
    """Shows a case with its subject, its votes and the possible acts, and does the requested act."""
    contest, now = contest_of(visit), visit.site.clock()
    member = _member(visit, contest)
    found = contest.read(lambda state: review_board_cases.find_case(state, member, case, now))
    if found is None:
        return _no_case(visit)
    sent, problem = visit.request.POST, ""
    decided, typed = sent.get("decide", ""), _typed_reasons(found, sent)
    shown, form = found, ReasonsForm.of_case(found, sent or None, decided=decided)
    if sent.get("ask"):  # the page asks once more before an act that cannot be undone, with what was typed
        form = ReasonsForm.of_case(found, initial=typed)
    elif visit.request.method == "POST" and decided not in form.errors:
        problem = attempt(lambda: _act(visit, contest, found, member, form))
        if not problem:
            _tell_of_ruling(visit, contest, found)
            messages.success(visit.request, "It is on the record.")
            typed.pop(decided, None)
            still = contest.read(lambda state: review_board_cases.find_case(state, member, case, visit.site.clock()))
            if still is None or not typed:
                return redirect("board") if still is None else redirect("board-case", case=case)
            shown, form = still, ReasonsForm.of_case(still, initial=typed)
    gone = typed.keys() - {each.question for each in shown.choices}
    viewer = unrestricted_views.Viewer(member=member)
    picture = contest.read(lambda state: unrestricted_views.find_picture(state, viewer, shown.picture, now))
    return render(
        visit,
        "weeks/case.html.j2",
        case=shown,
        asked=sent.get("ask", ""),
        picture=picture,
        form=form,
        decisions=[(each, form[each.question]) for each in shown.choices],
        problem=problem,
        lost=ReasonsForm(dict.fromkeys(sorted(gone), "Reason"), typed),
        status=form_status(form, problem),
    )


def _tell_of_ruling(visit: Visit, contest: UnrestrictedContest, found: Case) -> None:
    """Mails what was decided about the picture of a case."""
    if not found.picture or "decide" not in visit.request.POST:
        return
    if found.id.startswith("appeal:"):
        unrestricted_mails.mail_outcomes(visit.site)
    else:
        unrestricted_mails.mail_ruling(visit.site, contest, found.picture)


def _typed_reasons(found: Case, sent: QueryDict) -> dict[str, str]:
    """Returns the reasons that were sent, by their questions: also by those that the case does not ask any more."""
    texts = {name: str(text) for name, text in sent.items() if case_of(name) == found.id}
    return {question: text for question, text in texts.items() if text.strip()}


def _no_case(visit: Visit) -> HttpResponseBase:
    """Returns 404 for a case that does not wait for this person. Shows a sent text again, and nothing of the case."""
    if visit.request.method != "POST":
        raise Http404
    text = "It may be decided by now. The page of the review board lists what waits for you. Nothing was recorded."
    return errors.not_there(visit.request, "This case does not wait for you", text)


def case_picture(visit: Visit, case: str) -> HttpResponseBase:
    """Returns the picture of a case, even one that is withheld from others, because the board decides about that."""
    contest, now = contest_of(visit), visit.site.clock()
    member = _member(visit, contest)
    found = contest.read(lambda state: review_board_cases.find_case(state, member, case, now))
    if found is None or not found.picture:
        raise Http404
    return png(picture_png(contest, found.picture))


@limited(RequestKind.ACT)
def conflicts(visit: Visit) -> HttpResponseBase:
    """Shows the member's own conflicts and the waivable ones of other members, and declares a conflict."""
    contest, problem = contest_of(visit), ""
    member, now = _member(visit, contest), visit.site.clock()
    form = OwnConflictForm(contest.read(lambda state: sorted(state.season.teams)), visit.request.POST or None)
    if form.is_valid():
        said = form.cleaned_data
        source = ConflictSource(said["source"])
        problem = attempt(
            lambda: review_board_conflicts.declare_own(
                contest, MemberConflict(_seated(member), said["team"], source), now
            )
        )
        if not problem:
            messages.success(visit.request, "It is on the record.")
            return redirect("board-conflicts")
    own = contest.read(lambda state: review_board_conflicts.own_conflicts(state, member, now.date()))
    return render(
        visit,
        "weeks/conflicts.html.j2",
        member=member,
        form=form,
        own=[(each.team, SOURCE_WORDS[each.source]) for each in own],
        waivers=row_links(reverse("waive-conflict"), _waivable(contest, member, now)),
        problem=problem,
        status=form_status(form, problem),
    )


@limited(RequestKind.ACT)
def waive(visit: Visit) -> HttpResponseBase:
    """Waives a computed conflict of another member."""
    contest, problem = contest_of(visit), ""
    member, now = _member(visit, contest), visit.site.clock()
    form = WaiverForm.of_request(visit.request, _waivable(contest, member, now))
    if form.is_valid():
        said = form.cleaned_data
        row = (said["member"], said["team"], said["reason"])
        problem = attempt(lambda: review_board_conflicts.waive(contest, _seated(member), *row, now))
        if not problem:
            messages.success(visit.request, "It is on the record.")
            return redirect("board-conflicts")
    if not form.is_bound and not form.about:
        return redirect("board-conflicts")
    return render(
        visit,
        "weeks/waive.html.j2",
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def _waivable(contest: UnrestrictedContest, member: str, now: datetime) -> list[Row]:
    others = contest.read(lambda state: review_board_conflicts.waivable_conflicts(state, member, now))
    return [({"member": who, "team": team}, f"{who} and {team}") for who, team in others]


def _seated(member: str) -> str:
    """Returns a member's name on the board. Raises UsageError if no organizer has seated this person."""
    if not member:
        raise UsageError("you have no seat on the board yet; ask the organizers")
    return member


def _member(visit: Visit, contest: UnrestrictedContest) -> str:
    """Returns this person's name on the board, "" if no organizer has seated them."""
    return contest.read(lambda state: unrestricted_views.viewer_of(state, visit.actor.person, ()).member)


def _act(visit: Visit, contest: UnrestrictedContest, found: Case, member: str, form: ReasonsForm) -> None:
    """Does what the pressed button of a case asks for. Raises UsageError and Rejected."""
    sent, at = visit.request.POST, visit.site.clock()
    if question := sent.get("for") or sent.get("against"):
        _require_question(found, question)
        vote = events.VoteCast(actor=member, member=member, question=question, in_favour="for" in sent)
        contest.propose(vote, at)
    elif "panel" in sent and found.appeal:
        contest.propose(events.PanelCalled(actor=member, member=member, appeal=found.appeal), at)
    elif "confirm" in sent:
        event = validated(
            events.RejectionConfirmed, actor=member, member=member, defence=sent["confirm"], picture=found.picture
        )
        contest.propose(event, at)
    elif question := sent.get("decide", ""):
        _require_question(found, question)
        batch = f"batch-{contest.read(lambda state: state.position)}"
        command = review_board_cases.decision(question, form.cleaned_data[question], member, batch)
        if command is not None:
            contest.act(command, at)
    else:
        raise UsageError("nothing was chosen; choose one of the actions on this page")


def _require_question(found: Case, question: str) -> None:
    if question not in {each.question for each in found.choices}:
        raise UsageError("this question does not belong to this case; load the page again")
