"""Removes from results, and from the ledgers in bundles, what the public may not see. This file has all such rules.

| what is hidden | until | why | by |
| --- | --- | --- | --- |
| labels, and answers, since an answer that held is the label | labels are released | rule A2 | `redact_sealed_event` |
| unsalted digests of them, since all labels can be tried | labels are released | A2 | `WITHHELD` |
| evidence, which has answers | labels are released | A2 | `redact_finding`, `redact_replay`, `redact_results` |
| the last digits of numbers that an attack, which sees labels, can choose | labels are released | A2 | `FIGURES` |
| cells, last digits of numbers on boards, and ranks by them | scores are released | C9 | `_coarse_results` |
| messages about faults of ours | always, on pages | they may name our machines | `redact_results` |
| people's names | always | a name may be an address | `redact_contest_event` |
| names of files, texts of appeals and of their decisions | always | they may name people | `redact_contest_event` |
| fields of its events that a format withholds | always | `FormatEvent.withheld_fields` | `redact_contest_event` |

Pages for teams or for the web are made from the results that `redact_results` returns, never from the original ones. A
bundle shows of each event what this module's function for its ledger returns. A kind of event that is not listed here
as shown is withheld. In place of a round's withheld events, a sealed bundle has counts and rounded amounts
(`bundles.sealed_lists`). `bundles.revealed_lists.blob_digests` says which arrays are in a full bundle.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from math import ceil, floor, log10
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.domain import contest_events, events
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.submissions import Side
from orchestrator.errors import NotGenuine, UsageError
from orchestrator.integrity.findings import MAX_SHOWN as RECORDED
from orchestrator.ledger.event_registry import format_event_type
from orchestrator.scoring.results_file import (
    CellPart,
    FindingPart,
    JobPart,
    LeaderboardPart,
    QueryPart,
    ReplayCoveragePart,
    Results,
    RowPart,
    SubmissionPart,
    ValuePart,
    WaitingPart,
)

WITHHELD = "sha256:" + "0" * 64
"""Replaces a digest that is not shown."""
FIGURES = 2
"""The number of significant figures of measured amounts."""
_CURVE_STEPS = [figure * 10**power for power in range(10) for figure in (1, 2, 5)]
"""The numbers of queries at which a public curve has points."""
SHARE_DIGITS, POINT_DIGITS = 4, 2
"""The decimals of accuracies and other numbers from 0 to 1, and of points."""
SHARE_DIGITS_WHILE_OPEN = 2
"""The decimals of numbers from 0 to 1 before the scores are released."""
_HUNDREDS = ("percent", "points")
COARSE = (
    "Until the scores are released, numbers are rounded to a hundredth, equal ones rank by the earlier submission, and "
    "cells, times, and what defences used are not shown (C9)."
)
MEASURED_AMOUNTS = ("cpu_seconds", "peak_bytes", "bytes_in", "bytes_out")
"""The fields of a submission's results that were measured on its sandboxes, and that it can choose finely."""

_PUBLIC_EVENTS = (
    contest_events.ContestOpened,
    contest_events.SubmissionReceived,
    contest_events.SubmissionWithdrawn,
    contest_events.SubmissionDisqualified,
    contest_events.SubmissionCorrected,
    contest_events.OrganizersRecognized,
    contest_events.RoundPlayed,
    contest_events.RulesChanged,
    contest_events.RejudgementDropped,
    contest_events.BundlePublished,
    contest_events.ArrivalMatched,
    contest_events.RoundRequested,
    contest_events.ContestAnnounced,
    contest_events.SubmissionsClosed,
    contest_events.SubmissionsReopened,
)
"""The events of a contest's ledger that every bundle shows completely. None names people: names may be addresses."""
_PARTLY_SHOWN: dict[str, tuple[type[contest_events.CoreContestEvent], set[str], dict[str, Any]]] = {
    event_type.model_fields["kind"].default: (event_type, shown, placeholders)
    for event_type, shown, placeholders in (
        (contest_events.RoleGranted, {"role"}, {"person": {"id": "withheld", "name": "withheld"}}),
        (contest_events.RoleRevoked, {"role"}, {"person": "withheld", "reason": "withheld"}),
        (
            contest_events.SubmissionArrived,
            {"arrival", "team", "task", "side", "last_byte"},
            {"size": 0, "digest": WITHHELD},
        ),
        (contest_events.RoundRequestClosed, {"request", "outcome"}, {}),
        (contest_events.AppealFiled, {"appeal", "team", "submission"}, {"text": "withheld"}),
        (contest_events.AppealDecided, {"appeal", "upheld"}, {"reason": "withheld"}),
    )
}
"""The events with people's names or words, or with words about our machines, by kind: the class, the fields that every
bundle shows, and placeholders for others that the class requires."""
_SEALED_EVENTS = (events.SubmissionAdmitted, events.RoundClosed)
"""The events of a round's ledger that a sealed bundle shows completely."""


def redact_results(results: Results) -> Results:
    """Returns the part of the results that everybody may see."""
    names = {finding.id: f"finding-{number}" for number, finding in enumerate(results.findings, start=1)}
    jobs = {job.id: f"job-{number}" for number, job in enumerate(results.jobs, start=1)}
    if results.coarse:
        results = _coarse_results(results)
    return results.model_copy(
        update={
            "task": results.task.model_copy(update={"digest": WITHHELD}),
            "submissions": [_submission_part(part, names) for part in results.submissions],
            "cells": [_cell_part(part) for part in results.cells],
            "boards": [_board_part(part, names) for part in results.boards],
            "queries": redact_queries(results.queries),
            "replays": [_coverage_part(part, jobs) for part in results.replays],
            "findings": [_finding_part(part, names[part.id], jobs) for part in results.findings],
            "waiting": [_waiting_part(part, jobs) for part in results.waiting],
            "jobs": [_job_part(part, jobs) for part in results.jobs],
        }
    )


def _coarse_results(results: Results) -> Results:
    """Returns results without cells, and with boards rounded to a hundredth of the largest value.

    A team with enough submissions could learn the answers on single pictures from finer numbers (C9), and from the
    order of numbers that only look equal; so numbers that look equal rank by the earlier submission (A16). Times are
    left out, and so is everything that a defence used, since each of its faults costs time and a sandbox.
    """
    order = {part.id: number for number, part in enumerate(results.submissions)}
    return results.model_copy(
        update={
            "cells": [],
            "submissions": [without_faults(part) for part in results.submissions],
            "jobs": [replace(part, seconds=None) for part in results.jobs],
            "boards": [_coarse_board(board, order) for board in results.boards],
            "notes": [*results.notes, COARSE],
        }
    )


def without_faults(part: SubmissionPart) -> SubmissionPart:
    """Returns a defence's part without its faults, each a picture counted as misclassified (C3), and their traces."""
    if part.side is not Side.DEFENCE:
        return part
    status = "played" if part.status == "faulted" else part.status
    unsaid: dict[str, Any] = {
        "faults": [],
        "endings": {},
        "sandboxes": 0,
        "seconds": 0.0,
        **dict.fromkeys(MEASURED_AMOUNTS),
    }
    return part.model_copy(update={"status": status, **unsaid})


def _coarse_board(board: LeaderboardPart, order: Mapping[str, int]) -> LeaderboardPart:
    """Returns a board with rounded numbers; `order` is the order in which submissions were received."""
    rows = [_coarse_row(row, board) for row in board.rows]
    sign = -1 if board.more_is_better else 1

    def place(row: RowPart) -> tuple[bool, bool, float, int]:
        return row.rank is None, row.score is None, sign * (row.score or 0), order.get(row.submission, len(order))

    ranks, prizes = count(1), count(1)
    return board.model_copy(
        update={
            "rows": [
                row.model_copy(
                    update={
                        "rank": None if row.rank is None else next(ranks),
                        "prize_rank": None if row.prize_rank is None else next(prizes),
                    }
                )
                for row in sorted(rows, key=place)
            ]
        }
    )


def _coarse_row(row: RowPart, board: LeaderboardPart) -> RowPart:
    units = {column.name: column.unit for column in board.columns}
    return row.model_copy(
        update={
            "score": _coarse_number(row.score, board.unit),
            "exact": None,
            "interval": _coarse_limits(row.score, row.interval, board.unit),
            "ranks": None,
            "remark": "",
            "values": {
                name: value.model_copy(
                    update={
                        "value": _coarse_number(value.value, units.get(name, "")),
                        "exact": None,
                        "interval": _coarse_limits(value.value, value.interval, units.get(name, "")),
                    }
                )
                for name, value in row.values.items()
            },
        }
    )


def _coarse_number(number: float | None, unit: str) -> float | None:
    """Returns a number rounded to a hundredth of the largest one: 100 for percent and points, 1 without a unit."""
    return None if number is None else round(number, _coarse_digits(unit))


def _coarse_digits(unit: str) -> int:
    return 0 if unit in _HUNDREDS else SHARE_DIGITS_WHILE_OPEN


def _coarse_limits(number: float | None, limits: tuple[float, float] | None, unit: str) -> tuple[float, float] | None:
    """Returns limits at equal distances from the rounded number: half the interval's width, rounded up.

    If the limits were rounded separately, they would change to the next hundredth at other pictures than the number
    does, and the three together would reveal more than a hundredth.
    """
    if number is None or limits is None:
        return None
    digits, largest = _coarse_digits(unit), 100.0 if unit in _HUNDREDS else 1.0
    middle = round(number, digits)
    half = ceil(round((limits[1] - limits[0]) / 2 * 10**digits, 6)) / 10**digits
    lowest = 0.0 if middle >= 0 else -largest
    return max(lowest, round(middle - half, digits)), min(largest, round(middle + half, digits))


def redact_queries(parts: Sequence[QueryPart]) -> list[QueryPart]:
    """Returns the statistics of queries without the digits that an attack, which sees hidden pictures, can choose.

    Numbers of queries have two figures, and a curve has the share after 1, 2, 5, 10, 20, 50 queries and so on.
    """
    return [
        replace(
            part,
            queries=int(round_to_figures(part.queries) or 0),
            median=None if part.median is None else int(round_to_figures(part.median) or 0),
            curve=_coarse_curve(part.curve),
        )
        for part in parts
    ]


def _coarse_curve(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    coarse: dict[int, float] = {}
    for number, share in curve:
        coarse[next(step for step in _CURVE_STEPS if step >= number)] = share
    return list(coarse.items())


def round_to_figures(amount: float | None) -> float | None:
    """Returns a measured amount rounded to two figures."""
    if not amount:
        return amount
    rounded = round(amount, FIGURES - 1 - floor(log10(abs(amount))))
    return int(rounded) if isinstance(amount, int) else rounded


def _finding_summary(finding: FindingPart) -> str:
    """Returns the counts behind a finding; "at least" if only the first disagreements were recorded."""
    if finding.kind is FindingKind.REFUSED:
        return f"{finding.compared:,} compared."
    mismatches = len(finding.disagreements)
    least = "at least " if mismatches >= RECORDED else ""
    return f"{finding.compared:,} compared, {least}{mismatches:,} of them disagree."


def _waiting_part(part: WaitingPart, jobs: Mapping[str, str]) -> WaitingPart:
    """Returns a waiting job without the fault's message, which may name our machines."""
    return part.model_copy(update={"job": jobs.get(part.job, "job"), "message": ""})


def _submission_part(part: SubmissionPart, names: Mapping[str, str]) -> SubmissionPart:
    rounded = {name: round_to_figures(getattr(part, name)) for name in ("seconds", *MEASURED_AMOUNTS)}
    return part.model_copy(
        update={**rounded, "largest": None, "findings": [names.get(found, "finding") for found in part.findings]}
    )


def _cell_part(part: CellPart) -> CellPart:
    low, high = part.accuracy_interval
    return replace(
        part,
        accuracy=round(part.accuracy, SHARE_DIGITS),
        accuracy_interval=(round(low, SHARE_DIGITS), round(high, SHARE_DIGITS)),
        delta=None if part.delta is None else round(part.delta, POINT_DIGITS),
        delta_interval=_rounded_limits(part.delta_interval),
    )


def _board_part(part: LeaderboardPart, names: Mapping[str, str]) -> LeaderboardPart:
    digits = {column.name: POINT_DIGITS if column.unit else SHARE_DIGITS for column in part.columns}
    return part.model_copy(update={"rows": [_row_part(row, names, digits) for row in part.rows]})


def _row_part(part: RowPart, names: Mapping[str, str], digits: Mapping[str, int]) -> RowPart:
    return part.model_copy(
        update={
            "score": None if part.score is None else round(part.score, POINT_DIGITS),
            "exact": None,
            "interval": _rounded_limits(part.interval),
            "values": {name: _value_part(value, digits.get(name, POINT_DIGITS)) for name, value in part.values.items()},
            "reason": _with_new_names(part.reason, names),
            "remark": _with_new_names(part.remark, names),
        }
    )


def _value_part(part: ValuePart, digits: int) -> ValuePart:
    value = None if part.value is None else round(part.value, digits)
    return part.model_copy(update={"value": value, "exact": None, "interval": _rounded_limits(part.interval, digits)})


def _with_new_names(text: str, names: Mapping[str, str]) -> str:
    """Returns a text of ours with the findings' ids replaced by their public names."""
    for old, new in names.items():
        text = text.replace(f"finding {old}", new).replace(old, new)
    return text


def _coverage_part(part: ReplayCoveragePart, jobs: Mapping[str, str]) -> ReplayCoveragePart:
    return part.model_copy(update={"job": jobs.get(part.job, "job")})


def _finding_part(part: FindingPart, name: str, jobs: Mapping[str, str]) -> FindingPart:
    return part.model_copy(
        update={
            "id": name,
            "summary": _finding_summary(part),
            "disagreements": [],
            "job": jobs.get(part.job, "job"),
            "steps": [],
            "seeds": [],
            "sequence": [],
            "length": 0,
            "answer_alone": None,
            "p_value": None,
        }
    )


def _job_part(part: JobPart, jobs: Mapping[str, str]) -> JobPart:
    return replace(part, id=jobs[part.id], seconds=round_to_figures(part.seconds))


def _rounded_limits(limits: tuple[float, float] | None, digits: int = POINT_DIGITS) -> tuple[float, float] | None:
    return None if limits is None else (round(limits[0], digits), round(limits[1], digits))


def redact_contest_event(event: events.Event) -> dict[str, Any] | None:
    """Returns the shown part of a withheld event of a contest's ledger; None if all of it is shown."""
    match event:
        case contest_events.TeamAdded():
            organizers = sum(person.organizer for person in event.people)
            return {"kind": event.kind, "organizers": organizers, "people": len(event.people), "team": event.team}
        case contest_events.SubmissionRefused():
            return event.model_dump(mode="json", include={"kind", "team", "task", "side", "arrival"})
        case contest_events.FormatEvent():
            hidden = event.withheld_fields
            return event.model_dump(mode="json", exclude={"actor", *hidden}) if hidden else None
        case _ if event.kind in _PARTLY_SHOWN:
            _, shown, _ = _PARTLY_SHOWN[event.kind]
            return event.model_dump(mode="json", include={"kind", *shown})
        case _:
            return None if isinstance(event, _PUBLIC_EVENTS) else {}


def redact_sealed_event(event: events.Event) -> dict[str, Any] | None:
    """Returns None for a round's event that a sealed bundle shows; {} for the others, of which it has only the leaf."""
    return None if isinstance(event, _SEALED_EVENTS) else {}


def redact_full_event(event: events.Event) -> dict[str, Any] | None:
    """Returns None: a full bundle shows all of a round's events."""
    del event
    return None


class _RedactedTeam(BaseModel):
    """The public part of a `team_added` event: counts instead of people."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    kind: Literal["team_added"]
    team: str
    people: Annotated[int, Field(ge=1, le=1000)]
    organizers: Annotated[int, Field(ge=0, le=1000)]

    def to_event(self) -> contest_events.TeamAdded:
        """Returns an event with placeholder names; `Season` only uses whether people are organizers."""
        named = [
            contest_events.PersonRecord(id=f"{self.team} {number}", name="withheld", organizer=number < self.organizers)
            for number in range(self.people)
        ]
        return contest_events.TeamAdded(actor="withheld", team=self.team, people=named)


class _RedactedRefusal(BaseModel):
    """The public part of a `submission_refused` event, without the reasons, which name people."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["submission_refused"]
    team: str
    task: str
    side: Side | None
    arrival: str = ""

    def to_event(self) -> contest_events.SubmissionRefused:
        """Returns the event without its reasons."""
        shown = self.model_dump(exclude={"kind"})
        return contest_events.SubmissionRefused(actor="withheld", name="", **shown, problems=["withheld"])


_redacted_events: TypeAdapter[_RedactedTeam | _RedactedRefusal] = TypeAdapter(
    Annotated[_RedactedTeam | _RedactedRefusal, Field(discriminator="kind")]
)


def parse_redacted_event(public: dict[str, Any], place: str) -> contest_events.ContestEvent:
    """Returns the event of the public part of a withheld entry. Raises NotGenuine if it describes none."""
    kind = str(public.get("kind"))  # hostile: it may be any JSON value
    try:
        if "." in kind:
            return format_event_type(kind).model_validate(public | {"actor": "withheld"})
        if kind in _PARTLY_SHOWN:
            return _parse_shown_fields(kind, public, place)
        return _redacted_events.validate_python(public).to_event()
    except UsageError as error:
        raise NotGenuine(place, str(error)) from None
    except ValidationError:
        raise NotGenuine(place, "is withheld, and what is said in its place is not enough") from None


def _parse_shown_fields(kind: str, public: dict[str, Any], place: str) -> contest_events.ContestEvent:
    event_type, shown, placeholders = _PARTLY_SHOWN[kind]
    if public.keys() != {"kind", *shown}:
        raise NotGenuine(place, "is withheld, and what is said in its place is not what such a bundle says")
    return event_type.model_validate(public | {"actor": "withheld", **placeholders})


def redact_round_opened(event: events.RoundOpened) -> dict[str, Any]:
    """Returns a round's first event without the digests from which labels could be guessed."""
    task = event.task.model_dump(mode="json") | {"digest": WITHHELD, "pixels": WITHHELD, "labels": WITHHELD}
    return event.model_dump(mode="json") | {"task": task}


def redact_finding(number: int, event: events.FindingMade) -> dict[str, Any]:
    """Returns a finding without answers: its submission, its kind, and the number of comparisons."""
    public_fields = {"kind", "submission", "finding", "rules", "compared", "length", "batch", "image"}
    summary = f"a finding of the kind {event.finding.value}; its evidence is withheld until the labels are released"
    return _blank_fields(event, public_fields) | {"id": f"finding-{number}", "summary": summary}


def redact_replay(number: int, event: events.ReplayJudged) -> dict[str, Any]:
    """Returns the counts of a replay, without the job's id, which is a digest."""
    body = event.model_dump(mode="json")
    counts = {key: value for key, value in body.items() if isinstance(value, int | float)}
    return _blank_fields(event, {"kind", "submission"}) | counts | {"job": f"replay-{number}"}


def _blank_fields(event: BaseModel, public_fields: AbstractSet[str]) -> dict[str, Any]:
    """Returns an event as JSON in which all fields except `public_fields` are empty."""
    body = event.model_dump(mode="json")
    kinds = type(event).model_fields
    return {key: value if key in public_fields else _empty_value(kinds[key].annotation) for key, value in body.items()}


def _empty_value(annotation: Any) -> Any:
    if annotation is NoneType or NoneType in get_args(annotation):
        return None
    kind = get_origin(annotation) or annotation
    return kind()
