"""Formats numbers, sizes and times for reports."""

import re
from fractions import Fraction
from typing import Final

from orchestrator.domain import text

MINUS: Final = "\N{MINUS SIGN}"
NORMS: Final = {"linf": "Linf", "l2": "L2"}
_LEDGER_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00")
_MINUTE, _HOUR = 60, 3600
_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3
counted_noun = text.counted_noun


def percent(part: int, whole: int) -> str:
    """Returns a share as `78.2%`; an en dash if `whole` is 0. Only none is 0.0% and only all is 100.0%."""
    if whole == 0:
        return "\N{EN DASH}"
    tenths = round(Fraction(1000 * part, whole))
    if 0 < part < whole:
        tenths = min(max(tenths, 1), 999)
    return f"{tenths // 10}.{tenths % 10}%"


def signed(value: float, digits: int = 1) -> str:
    """Returns a number with a true minus sign, never `-0.0`."""
    text = f"{abs(value):.{digits}f}"
    return MINUS + text if value < 0 and float(text) else text


def number(value: float | None, unit: str = "points") -> str:
    """Returns a value of a board's column: a whole number as `1,200`, otherwise with two decimals; "" for None.

    A value without a unit is from 0 to 1 and has four decimals, fewer if it was rounded; "-" for None.
    """
    if value is None:
        return "" if unit else "-"
    if not unit:
        return f"{value:.4f}".removesuffix("0").removesuffix("0")
    return f"{int(value):,}" if float(value).is_integer() else signed(value, 2)


def duration(seconds: float) -> str:
    """Returns `0.42 s`, `93.1 s`, `12 min 05 s` or `3 h 07 min`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.1f} s"
    total_seconds = round(seconds)
    if total_seconds < _HOUR:
        return f"{total_seconds // _MINUTE} min {total_seconds % _MINUTE:02d} s"
    minutes = total_seconds // _MINUTE
    return f"{minutes // 60} h {minutes % 60:02d} min"


def byte_size(count: int) -> str:
    """Returns bytes as `640 B`, `812 KiB`, `391 MiB` or `1.9 GiB`."""
    if count < _KIB:
        return f"{count} B"
    if count < _MIB:
        return f"{count / _KIB:.0f} KiB"
    return f"{count / _MIB:.0f} MiB" if count < _GIB else f"{count / _GIB:.1f} GiB"


def distance(steps: float) -> str:
    """Returns a distance as `51/255`, with at most two decimals."""
    return f"{round(steps, 2):,g}/255" if steps < 1_000_000 else f"{steps:.3g}/255"  # noqa: PLR2004  %g turns to 1e+06


def budget(norm: str | None, epsilon: str | None) -> str:
    """Returns a budget as `Linf 51/255`; `epsilon` is a number or a fraction in steps of 1/255."""
    if norm is None or epsilon is None:
        return "none"
    return f"{NORMS.get(norm, norm)} {distance(float(Fraction(epsilon)))}"


def ledger_time(time: str) -> str:
    """Returns a ledger's time as `2026-03-01 12:00:00 UTC`; any other text unchanged."""
    found = _LEDGER_TIME.fullmatch(time)
    return f"{found[1]} {found[2]} UTC" if found else time
