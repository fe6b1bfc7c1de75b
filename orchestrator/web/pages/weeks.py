"""The public pages of an unrestricted contest: weeks and their pictures, the standing, and the money."""

import re
from collections.abc import Sequence

from django import forms
from django.http import Http404, HttpResponseBase
from django.urls import reverse

from orchestrator.application.contests import unrestricted_views
from orchestrator.application.grading.attack_pictures import picture_png
from orchestrator.domain.leaderboard import Leaderboard
from orchestrator.errors import Busy, UsageError
from orchestrator.formats.unrestricted.boards import boards
from orchestrator.formats.unrestricted.money import SPLIT_RULE, format_units
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.statement import monthly_statements
from orchestrator.web.file_responses import png
from orchestrator.web.form_actions import problem_text
from orchestrator.web.pages import errors
from orchestrator.web.rights import Visit, team_slugs
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of, viewer_of

PICTURES_PER_PAGE = 100
PAGE_NUMBER = re.compile("[1-9][0-9]{0,5}")


def weeks(visit: Visit) -> HttpResponseBase:
    """Lists the weeks of the contest, the open one first, and its raters."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.weeks(state, viewer, now))
    return render(visit, "weeks/weeks.html.j2", weeks=found, raters=contest.read(unrestricted_views.raters))


def week(visit: Visit, week_id: str) -> HttpResponseBase:
    """Shows a page of a closed week's pictures, with the answers of raters and defences; `?page=` selects the page."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer, asked = viewer_of(visit, contest), visit.request.GET.get("page", "1")
    page = int(asked) if PAGE_NUMBER.fullmatch(asked) else 1
    part = slice((page - 1) * PICTURES_PER_PAGE, page * PICTURES_PER_PAGE)
    found = contest.read(lambda state: unrestricted_views.pictures_of_week(state, viewer, week_id, now, part))
    if found is None:
        raise Http404
    pictures, count = found
    pages = max(1, -(-count // PICTURES_PER_PAGE))
    return render(visit, "weeks/week.html.j2", week_id=week_id, pictures=pictures, count=count, page=page, pages=pages)


def picture(visit: Visit, picture_id: str) -> HttpResponseBase:
    """Shows a picture with every answer about it."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.find_picture(state, viewer, picture_id, now))
    if found is None:
        raise Http404

    def appellants(state: State) -> list[str]:
        known = state.pictures[picture_id]
        return [each for each in viewer.teams if unrestricted_views.may_appeal(state, known, each, now)]

    return render(visit, "weeks/picture.html.j2", picture=found, may_appeal=contest.read(appellants))


def picture_file(visit: Visit, picture_id: str) -> HttpResponseBase:
    """Returns a picture's pixels, encoded again as PNG; 404 for a picture that the board withholds."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.find_picture(state, viewer, picture_id, now))
    if found is None or found.withheld:
        raise Http404
    # Caches may keep what everybody sees: a member of the board may have a conflict with it.
    shared = found.is_public and not viewer.member
    return png(picture_png(contest, picture_id), "public, no-cache" if shared else "private, no-store")


class DayForm(forms.Form):
    """Selects the day of the standing."""

    day = forms.DateField(
        label="Day",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        input_formats=["%Y-%m-%d"],
        help_text="A day of the contest's time zone. You see what stood when it was over.",
    )


def standing(visit: Visit) -> HttpResponseBase:
    """Shows how long each defence has held and how many each team broke: now, or at the end of the day `?day=`."""
    contest, problem, now = contest_of(visit), "", visit.site.clock()
    form = DayForm(visit.request.GET if "day" in visit.request.GET else None)
    day = form.cleaned_data["day"] if form.is_valid() else None
    found: Sequence[Leaderboard] = contest.read(boards)
    if day is not None:
        try:
            found = contest.boards_of_day(day, now)
        except Busy:
            return errors.too_many(visit.request, errors.RETRY_SECONDS)
        except UsageError as error:
            day, problem = None, problem_text(error)
    return render(
        visit,
        "weeks/standing.html.j2",
        status=400 if problem or (form.is_bound and not form.is_valid()) else 200,
        boards=[unrestricted_views.board_table(each) for each in found],
        pages=_pages_of_rows(visit),
        form=form,
        day=day,
        problem=problem,
    )


def _pages_of_rows(visit: Visit) -> dict[str, dict[str, str]]:
    """Returns, by the title of each board, the address of each row's page; a defence's is that of its team."""
    slugs = team_slugs(visit.season)
    teams = {team: reverse("public-team", kwargs={"slug": slug}) for team, slug in slugs.items()}
    owners = {name: teams[entry.team] for name, entry in visit.season.entries.items()}
    return {"Defences": owners, "Attackers": teams}


def money(visit: Visit) -> HttpResponseBase:
    """Shows the transfers of each month and the balance of every account (U10)."""
    contest = contest_of(visit)
    currency, zone = contest.read(lambda state: (state.books.currency if state.books else "", state.zone))
    months = monthly_statements(currency, contest.transfers(), zone) if currency else {}
    return render(
        visit,
        "weeks/money.html.j2",
        months=sorted(months.items(), reverse=True),
        amount=lambda units: format_units(units, currency),
        split_rule=SPLIT_RULE,
        pays=bool(currency),
    )
