"""A team's pages in an unrestricted contest: submitting pictures, receipts, appeals and declared conflicts."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests import review_board_conflicts, unrestricted_views
from orchestrator.application.contests.review_board_conflicts import DECLARED, MemberConflict
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.contests.unrestricted_views import PictureView
from orchestrator.application.grading import attack_pictures
from orchestrator.application.grading.attack_pictures import MAX_PICTURE_BYTES
from orchestrator.bundles.receipts import encode_receipt
from orchestrator.formats.unrestricted.recusal import SOURCE_WORDS, ConflictSource
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.week_calendar import local_day
from orchestrator.web import unrestricted_mails
from orchestrator.web.arrival_time import last_byte_time
from orchestrator.web.file_responses import attachment
from orchestrator.web.form_actions import attempt, form_status
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.team_forms import CHOOSE, TEXT_LIMIT
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of


class PictureForm(forms.Form):
    """Submits one picture."""

    file = forms.FileField(
        label="Picture",
        widget=forms.ClearableFileInput(attrs={"accept": ".png"}),
    )

    def __init__(self, shape: tuple[int, int, int], *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # passed on to Django's form
        channels, height, width = shape
        colours = "grey" if channels == 1 else "RGB"
        self.fields["file"].help_text = f"A PNG of {width} x {height} pixels in {colours}, of at most 1 MiB."


class ObjectionForm(forms.Form):
    """Appeals against the ruling on a picture."""

    text = forms.CharField(
        max_length=TEXT_LIMIT,
        label="What speaks against the ruling",
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="For the members of the review board who have no conflict. It is not published.",
    )


class TeamConflictForm(forms.Form):
    """Declares a conflict with a board member, who then does not judge the team's cases."""

    member = forms.ChoiceField(label="Member of the board")
    source = forms.ChoiceField(label="Why", choices=[CHOOSE, *((each.value, SOURCE_WORDS[each]) for each in DECLARED)])

    def __init__(self, members: list[str], *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # passed on to Django's form
        self.fields["member"].choices = [CHOOSE, *((each, each) for each in members)]  # type: ignore[attr-defined]


@limited(RequestKind.SUBMISSION)
def pictures(visit: Visit) -> HttpResponseBase:
    """Shows a team's pictures and those whose ruling it may appeal against, and takes a picture."""
    contest, request, now = contest_of(visit), visit.request, visit.site.clock()
    shape = attack_pictures.task_shape(visit.site.contest())
    form = PictureForm(shape, *((request.POST, request.FILES) if request.method == "POST" else ()))
    problem = ""
    if form.is_valid():
        whole = last_byte_time(request, visit.site.clock)
        problem = attempt(lambda: _submit_picture(visit, contest, shape, form.cleaned_data["file"], whole))
        if not problem:
            return redirect(visit.team_url("team-pictures"))

    def shown(state: State) -> dict[str, Any]:
        day = local_day(now, state.zone)
        left = state.rules.uploads_per_day - state.uploads.get((visit.team, day), 0)
        return {
            "own": unrestricted_views.pictures_of_team(state, visit.team),
            "contestable": unrestricted_views.contestable_pictures(state, visit.team, now),
            "admitted": visit.team in state.admitted,
            "left": max(0, left),
            "zone": state.zone,
            "week": state.week,
            "is_any_published": any(each.published_at is not None for each in state.defences.values()),
            "has_board": bool(state.board.members),
        }

    return render(
        visit,
        "weeks/team_pictures.html.j2",
        form=form,
        problem=problem,
        status=form_status(form, problem),
        **contest.read(shown),
    )


@limited(RequestKind.ACT)
def conflict(visit: Visit) -> HttpResponseBase:
    """Declares a conflict of the team with a member of the board."""
    contest, problem, now = contest_of(visit), "", visit.site.clock()
    form = TeamConflictForm(contest.read(lambda state: sorted(state.board.members)), visit.request.POST or None)
    if form.is_valid():
        said = form.cleaned_data
        declared = MemberConflict(said["member"], visit.team, ConflictSource(said["source"]))
        problem = attempt(lambda: review_board_conflicts.declare_for_team(contest, visit.actor.person, declared, now))
        if not problem:
            messages.success(visit.request, "The conflict is on the record: this member sees no case of yours.")
            return redirect(visit.team_url("team-pictures"))
    return render(
        visit,
        "weeks/team_conflict.html.j2",
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def _submit_picture(
    visit: Visit, contest: UnrestrictedContest, shape: tuple[int, int, int], file: UploadedFile, now: datetime
) -> None:
    data = file.read(MAX_PICTURE_BYTES + 1)
    picture = attack_pictures.submit_picture(contest, shape, visit.actor.person, visit.team, data, now)
    messages.success(visit.request, f"The picture {picture} was received.")


@limited(RequestKind.APPEAL)
def picture(visit: Visit, picture_id: str) -> HttpResponseBase:
    """Shows a picture of the team, or one that breaks its defence, and takes an appeal against its ruling (U8)."""
    contest, now = contest_of(visit), visit.site.clock()

    def found(state: State) -> tuple[PictureView, bool] | None:
        known = state.pictures.get(picture_id)
        if known is None or not unrestricted_views.is_party(state, known, visit.team):
            return None
        may_appeal = unrestricted_views.may_appeal(state, known, visit.team, now)
        return unrestricted_views.picture_view(state, known), may_appeal

    shown = contest.read(found)
    if shown is None:
        raise Http404
    form, problem = ObjectionForm(visit.request.POST or None), ""
    if form.is_valid():

        def appeal() -> None:
            words = (visit.actor.person, visit.team, picture_id, form.cleaned_data["text"])
            filed = attack_pictures.appeal_against_ruling(contest, *words, now)
            unrestricted_mails.mail_waiting_appeal(visit.site, contest, filed)

        problem = attempt(appeal)
        if not problem:
            messages.success(visit.request, "Your appeal is on the record. The review board decides it.")
            return redirect(visit.team_url("team-picture", picture_id=picture_id))
    return render(
        visit,
        "weeks/team_picture.html.j2",
        picture=shown[0],
        may_appeal=shown[1],
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def receipt(visit: Visit, picture_id: str) -> HttpResponseBase:
    """Returns the signed receipt of a team's own picture as a file."""
    contest = contest_of(visit)
    if contest.read(lambda state: picture_id not in state.pictures or state.pictures[picture_id].team != visit.team):
        raise Http404
    made = attack_pictures.picture_receipt(contest, visit.site.contest().file.contest, picture_id)
    return attachment(f"receipt-{picture_id}.json", encode_receipt(made.document()))
