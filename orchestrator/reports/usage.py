"""The resources that a round used: time, memory, bytes and sandboxes, by submission and in total."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from orchestrator.domain.submissions import Side
from orchestrator.reports import formatting
from orchestrator.scoring.results_file import Results, SubmissionPart


@dataclass(frozen=True, slots=True)
class Amount:
    """One figure; `text` is empty if nothing was measured.

    `bar_width` is its percentage of the largest figure of its side, 0 to 100.
    """

    text: str
    bar_width: float


@dataclass(frozen=True, slots=True)
class SubmissionUsage:
    """The resources that one submission used; `amounts` are in the order of `USAGE_KINDS`."""

    submission: SubmissionPart
    amounts: tuple[Amount, ...]
    sandboxes: str
    endings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RoundUsage:
    """The resources that each submission and the round used. Organizers plan the next round with `totals`."""

    kinds: tuple[str, ...]
    sides: tuple[tuple[str, tuple[SubmissionUsage, ...]], ...]
    totals: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _UsageKind:
    name: str
    value_of: Callable[[SubmissionPart], float | None]
    format_value: Callable[[float], str]
    combine: Callable[[Iterable[float]], float]
    total_name: str


def _size(amount: float) -> str:
    return formatting.byte_size(round(amount))


USAGE_KINDS: Final = (
    _UsageKind("Work", lambda part: part.seconds, formatting.duration, sum, "Work"),
    _UsageKind("Processor", lambda part: part.cpu_seconds, formatting.duration, sum, "Processor time"),
    _UsageKind("Peak memory", lambda part: part.peak_bytes, _size, max, "Largest peak of memory"),
    _UsageKind("Sent to it", lambda part: part.bytes_in, _size, sum, "Sent to players"),
    _UsageKind("It wrote", lambda part: part.bytes_out, _size, sum, "Written by players"),
)


def round_usage(results: Results) -> RoundUsage:
    """Returns the resources that a round used."""
    sides = []
    for side in Side:
        members = [part for part in results.submissions if part.side is side]
        most = [max((kind.value_of(part) or 0.0 for part in members), default=0.0) for kind in USAGE_KINDS]
        sides.append((side.value, tuple(_submission_usage(part, most) for part in members)))
    return RoundUsage(tuple(kind.name for kind in USAGE_KINDS), tuple(sides), _round_totals(results.submissions))


def _submission_usage(part: SubmissionPart, most: list[float]) -> SubmissionUsage:
    return SubmissionUsage(
        submission=part,
        amounts=tuple(_amount(kind, part, largest) for kind, largest in zip(USAGE_KINDS, most, strict=True)),
        sandboxes=f"{part.sandboxes:,}",
        endings=tuple((f"{count:,}", reason) for reason, count in part.endings.items()),
    )


def _amount(kind: _UsageKind, part: SubmissionPart, largest: float) -> Amount:
    amount = kind.value_of(part)
    if amount is None:
        return Amount("", 0.0)
    return Amount(kind.format_value(amount), round(100 * amount / largest, 1) if largest else 0.0)


def _round_totals(parts: list[SubmissionPart]) -> tuple[tuple[str, str], ...]:
    totals = []
    for kind in USAGE_KINDS:
        amounts = [amount for part in parts if (amount := kind.value_of(part)) is not None]
        if amounts:
            missing = len(parts) - len(amounts)
            totals.append(
                (
                    kind.total_name,
                    kind.format_value(kind.combine(amounts)) + (f", {missing:,} not measured" if missing else ""),
                )
            )
    endings: Counter[str] = Counter()
    for part in parts:
        endings.update(part.endings)
    endings_text = ", ".join(f"{count:,} {reason}" for reason, count in sorted(endings.items()))
    totals.append(
        ("Sandboxes", f"{sum(part.sandboxes for part in parts):,}" + (f": {endings_text}" if endings_text else ""))
    )
    return tuple(totals)
