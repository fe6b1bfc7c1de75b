"""When a week closes and what day it is (U5): by the calendar of the contest's zone, then by the zone."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.unrestricted.week_calendar import (
    Weekday,
    first_instant,
    load_zone,
    local_day,
    next_week,
    week_at,
    week_ending,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "America/Asuncion",
    "Asia/Beirut",
]
BERLIN = load_zone("Europe/Berlin")


def hours(last_day: date, zone: str) -> float:
    """Returns how long the week is that ends on a day."""
    week = week_ending(last_day, load_zone(zone))
    return (week.closes - week.opens) / timedelta(hours=1)


@pytest.mark.parametrize(
    ("last_day", "expected"),
    [(date(2027, 4, 2), 167), (date(2027, 1, 22), 168), (date(2027, 11, 5), 169)],
    ids=["spring", "winter", "autumn"],
)
def test_a_week_in_which_clocks_change_has_an_hour_less_or_more(last_day, expected) -> None:
    """A week is seven local days, which are 167, 168 or 169 hours."""
    assert hours(last_day, "Europe/Berlin") == expected


def test_u5_a_week_closes_when_friday_is_over_in_the_contests_zone() -> None:
    """23:59:59.999 on Friday is in the week, and Saturday 00:00:00 is in the next one."""
    close = datetime(2027, 1, 22, 23, tzinfo=UTC)
    week = week_at(close - timedelta(milliseconds=1), BERLIN, Weekday.FRIDAY)
    assert (week.id, week.closes) == ("2027-W03", close)
    assert week_at(close, BERLIN, Weekday.FRIDAY).id == "2027-W04"


def test_a_week_is_called_after_the_iso_week_of_its_last_day() -> None:
    """The week over New Year belongs to the year of its Friday."""
    assert week_ending(date(2027, 1, 1), BERLIN).id == "2026-W53"


@pytest.mark.parametrize(
    ("zone", "day", "instant"),
    [
        ("America/Sao_Paulo", date(2018, 11, 4), datetime(2018, 11, 4, 3, tzinfo=UTC)),
        ("Pacific/Apia", date(2011, 12, 30), datetime(2011, 12, 30, 10, tzinfo=UTC)),
        ("America/Havana", date(2026, 11, 1), datetime(2026, 11, 1, 4, tzinfo=UTC)),
        ("America/Toronto", date(1919, 3, 31), datetime(1919, 3, 31, 4, 30, tzinfo=UTC)),
    ],
    ids=["midnight skipped", "day skipped", "midnight twice", "skipped from before to after midnight"],
)
def test_a_day_without_its_midnight_begins_at_its_first_instant(zone, day, instant) -> None:
    """Where clocks skip midnight the first instant after counts, and where it comes twice the first one."""
    assert first_instant(day, load_zone(zone)) == instant


@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2009, 1, 1), datetime(2029, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  hypothesis wants naive bounds
    st.sampled_from(Weekday),
)
def test_every_instant_is_in_exactly_one_week(name, instant, last_weekday) -> None:
    """Weeks follow each other without a gap, and each holds the instants between its ends."""
    zone = load_zone(name)
    week = week_at(instant, zone, last_weekday)
    assert week.opens <= instant < week.closes
    following = next_week(week, zone, last_weekday)
    assert following.opens == week.closes < following.closes
    assert week_at(week.closes, zone, last_weekday) == following
    assert local_day(week.closes - timedelta(microseconds=1), zone) < local_day(week.closes, zone)


@pytest.mark.parametrize("name", ["Mars/Base", "../tzdata", "/etc/passwd", "", "Europe", "zone.tab", "europe//berlin"])
def test_what_is_no_zone_is_refused(name) -> None:
    """A name that is none of the database's zones, or a path, is an error that says so."""
    with pytest.raises(ValueError, match="time zone"):
        load_zone(name)
