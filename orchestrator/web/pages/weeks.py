"""What everybody sees of an unrestricted contest: weeks and their pictures, how defences and attackers stand, money."""

from dataclasses import dataclass
from fractions import Fraction

from django.http import Http404, HttpResponseBase

from orchestrator.application.contests import unrestricted_views
from orchestrator.application.grading.attack_pictures import picture_png
from orchestrator.domain.leaderboard import Leaderboard, Row
from orchestrator.formats.unrestricted.boards import boards
from orchestrator.formats.unrestricted.money import SPLIT_RULE, format_units
from orchestrator.formats.unrestricted.statement import monthly_statements
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render
from orchestrator.web.weeks import contest_of, png, viewer_of


@dataclass(frozen=True, slots=True)
class BoardTable:
    """A board as its table shows it: heads, and rows of texts."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def weeks(visit: Visit) -> HttpResponseBase:
    """The weeks of the contest, the open one first."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.weeks(state, viewer, now))
    return render(visit, "weeks/weeks.html.j2", weeks=found)


def week(visit: Visit, week_id: str) -> HttpResponseBase:
    """A closed week: its pictures, what raters found, and what each defence answered."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.pictures_of_week(state, viewer, week_id, now))
    if found is None:
        raise Http404
    return render(visit, "weeks/week.html.j2", week_id=week_id, pictures=found)


def picture(visit: Visit, picture_id: str) -> HttpResponseBase:
    """A picture with every answer about it."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.find_picture(state, viewer, picture_id, now))
    if found is None:
        raise Http404
    return render(visit, "weeks/picture.html.j2", picture=found)


def picture_file(visit: Visit, picture_id: str) -> HttpResponseBase:
    """The pixels of a picture, as a PNG of our own; not those that the board withholds."""
    contest, now = contest_of(visit), visit.site.clock()
    viewer = viewer_of(visit, contest)
    found = contest.read(lambda state: unrestricted_views.find_picture(state, viewer, picture_id, now))
    if found is None or found.withheld:
        raise Http404
    return png(picture_png(contest, picture_id), is_public=found.is_public and not viewer.member)


def standing(visit: Visit) -> HttpResponseBase:
    """How long each defence has held, and which team broke how many."""
    tables = contest_of(visit).read(lambda state: [_table(each) for each in boards(state)])
    return render(visit, "weeks/standing.html.j2", boards=tables)


def money(visit: Visit) -> HttpResponseBase:
    """What moved in each month, and what every account holds (U10)."""
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


def _table(board: Leaderboard) -> BoardTable:
    columns = [f"{each.title} ({each.unit})" if each.unit else each.title for each in board.columns]
    heads = ("Rank", board.title, f"{board.measure}", *columns, "Remarks")
    return BoardTable(board.title, heads, tuple(_row(board, each) for each in board.rows))


def _row(board: Leaderboard, row: Row) -> tuple[str, ...]:
    numbers = [row.values[each.name].number if each.name in row.values else None for each in board.columns]
    no_prize = f"no prize: {row.no_prize}" if row.no_prize else ""
    remarks = "; ".join(each for each in (row.remark, row.reason, no_prize) if each)
    return (str(row.rank or "-"), row.submission, _number(row.score), *map(_number, numbers), remarks)


def _number(value: Fraction | int | None) -> str:
    if value is None:
        return "-"
    return str(int(value)) if value == int(value) else f"{float(value):.2f}"
