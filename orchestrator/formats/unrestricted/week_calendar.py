"""The weeks of a contest (U5), in the calendar of its own time zone.

A week closes at the first instant of the local day after its last day: it has a picture that is received at
23:59:59.999, but not one at 00:00:00. The close is computed from the date and then the zone, so a week in which clocks
change has 167 or 169 hours. Zones are read from the package `tzdata`, never from the machine, so `TZDATA_VERSION` is
the release with which a close was computed.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

from orchestrator.domain.field_errors import show_value

TZDATA_VERSION: str = tzdata.IANA_VERSION
"""The release of the IANA time zone database, such as `2026f`."""
_ONE_DAY = timedelta(days=1)
_ZONE_LENGTH = 60
"""The longest name of a zone that is accepted, in characters: longer than all that exist."""
_FINEST = timedelta(seconds=1)
"""Clocks change at whole seconds."""


class Weekday(IntEnum):
    """A day of the week, with the numbers of `date.weekday`."""

    MONDAY = 0
    TUESDAY = 1
    WEDNESDAY = 2
    THURSDAY = 3
    FRIDAY = 4
    SATURDAY = 5
    SUNDAY = 6


@dataclass(frozen=True, slots=True)
class Week:
    """A week of the contest, from `opens` to before `closes`, both in UTC. An example of `id` is `2027-W03`."""

    id: str
    opens: datetime
    closes: datetime


@cache
def load_zone(name: str) -> ZoneInfo:
    """Returns a time zone by its IANA name, such as `Europe/Berlin`. Raises ValueError if there is none."""
    parts = name.split("/")
    if len(name) > _ZONE_LENGTH or not all(part and set(part) <= _ZONE_CHARACTERS for part in parts):
        raise ValueError(f"{show_value(name)} is not the name of a time zone; write one such as Europe/Berlin")
    place = files("tzdata").joinpath("zoneinfo", *parts)
    if not place.is_file():
        raise ValueError(f"the IANA database {TZDATA_VERSION} has no time zone {name!r}; write one such as UTC")
    with place.open("rb") as data:
        if data.read(4) != b"TZif":
            raise ValueError(f"{name!r} is not a time zone; write one such as UTC")
        data.seek(0)
        return ZoneInfo.from_file(data, name)


def first_instant(day: date, zone: ZoneInfo) -> datetime:
    """Returns the instant, in UTC, at which a local day begins.

    That is midnight: the first one if it comes twice, and the first instant after the jump if clocks skip it.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    instant = midnight.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == midnight.replace(tzinfo=None):
        return instant
    # Clocks jump over midnight. `late`, with the offset before the jump, is at or after it; `early` is before it.
    late, early = instant, midnight.replace(fold=1).astimezone(UTC)
    offset = late.astimezone(zone).utcoffset()
    early -= _FINEST
    while late - early > _FINEST:
        middle = early + (late - early) // 2
        middle = middle.replace(microsecond=0)
        if middle <= early:
            break
        early, late = (early, middle) if middle.astimezone(zone).utcoffset() == offset else (middle, late)
    return late


def local_day(instant: datetime, zone: ZoneInfo) -> date:
    """Returns the calendar day of an instant in the contest's zone."""
    return instant.astimezone(zone).date()


def week_at(instant: datetime, zone: ZoneInfo, last_weekday: Weekday) -> Week:
    """Returns the week that contains an instant."""
    day = local_day(instant, zone)
    last_day = day + timedelta(days=(last_weekday - day.weekday()) % 7)
    while (week := week_ending(last_day, zone)).closes <= instant:
        last_day += timedelta(days=7)
    return week


def next_week(week: Week, zone: ZoneInfo, last_weekday: Weekday) -> Week:
    """Returns the week that opens when a week closes."""
    return Week((found := week_at(week.closes, zone, last_weekday)).id, week.closes, found.closes)


def week_ending(last_day: date, zone: ZoneInfo) -> Week:
    """Returns the week of seven local days that ends with `last_day`. Its id is the ISO week of that day."""
    year, number, _ = last_day.isocalendar()
    opens, closes = first_instant(last_day - 6 * _ONE_DAY, zone), first_instant(last_day + _ONE_DAY, zone)
    return Week(f"{year}-W{number:02}", opens, closes)


_ZONE_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-")
