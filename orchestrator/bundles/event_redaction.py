"""What may be shown, and in which words, before labels are released (rule A2) and ever (what people are called).

A held answer is the label, and a digest of few uncertain answers can be guessed: what is not listed here as shown is
withheld, new kinds of events and new fields of known ones included.
"""

from collections.abc import Set as AbstractSet
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.domain import contest_events, events
from orchestrator.domain.submissions import Side
from orchestrator.errors import NotGenuine
from orchestrator.ledger.stores.base import GENESIS

WITHHELD = GENESIS
"""Stands in place of a digest that is not shown."""

_PUBLIC_EVENTS = (
    contest_events.ContestOpened,
    contest_events.SubmissionReceived,
    contest_events.SubmissionWithdrawn,
    contest_events.SubmissionDisqualified,
    contest_events.SubmissionCorrected,
    contest_events.RoundPlayed,
    contest_events.FinalistsPromoted,
    contest_events.RulesChanged,
    contest_events.RejudgementDropped,
    contest_events.BundlePublished,
)
"""What every bundle shows of a contest's ledger: not what names people, whose names may be their addresses."""
_SEALED_EVENTS = (events.SubmissionAdmitted, events.RoundClosed)
"""What a sealed bundle shows of a round's ledger."""


def redact_contest_event(event: events.Event) -> dict[str, Any] | None:
    """Returns what is shown of a withheld event of a contest's ledger; None where all of it is shown."""
    match event:
        case contest_events.TeamAdded():
            organizers = sum(person.organizer for person in event.people)
            return {"kind": event.kind, "organizers": organizers, "people": len(event.people), "team": event.team}
        case contest_events.SubmissionRefused():
            return event.model_dump(mode="json", include={"kind", "team", "task", "side"})
        case _:
            return None if isinstance(event, _PUBLIC_EVENTS) else {}


def redact_sealed_event(event: events.Event) -> dict[str, Any] | None:
    """Returns what a sealed bundle shows of an event of a round: a few in full, of the others the leaf alone."""
    return None if isinstance(event, _SEALED_EVENTS) else {}


def redact_full_event(event: events.Event) -> dict[str, Any] | None:
    """Returns what a full bundle shows of an event of a round: everything."""
    del event
    return None


class _RedactedTeam(BaseModel):
    """What is said of a team in place of its people."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    kind: Literal["team_added"]
    team: str
    people: Annotated[int, Field(ge=1, le=1000)]
    organizers: Annotated[int, Field(ge=0, le=1000)]

    def act(self) -> contest_events.TeamAdded:
        """Returns the act with nobody's name; Season asks of people only whether they are organizers."""
        named = [
            contest_events.PersonRecord(id=f"{self.team} {number}", name="withheld", organizer=number < self.organizers)
            for number in range(self.people)
        ]
        return contest_events.TeamAdded(by="withheld", team=self.team, people=named)


class _RedactedRefusal(BaseModel):
    """What is said of a refused submission; the reasons name people."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["submission_refused"]
    team: str
    task: str
    side: Side | None

    def act(self) -> contest_events.SubmissionRefused:
        """Returns the act without its reasons."""
        return contest_events.SubmissionRefused(
            by="withheld", name="", team=self.team, task=self.task, side=self.side, problems=["withheld"]
        )


_redacted_events: TypeAdapter[_RedactedTeam | _RedactedRefusal] = TypeAdapter(
    Annotated[_RedactedTeam | _RedactedRefusal, Field(discriminator="kind")]
)


def parse_redacted_event(public: dict[str, Any], place: str) -> contest_events.ContestEvent:
    """Returns the act that a withheld entry of a contest's ledger is said to be. Raises NotGenuine for none."""
    try:
        return _redacted_events.validate_python(public).act()
    except ValidationError:
        raise NotGenuine(place, "is withheld, and what is said in its place is not enough") from None


def redact_round_opened(event: events.RoundOpened) -> dict[str, Any]:
    """Returns a round's first event without digests that labels could be guessed from."""
    task = event.task.model_dump(mode="json") | {"digest": WITHHELD, "pixels": WITHHELD, "labels": WITHHELD}
    return event.model_dump(mode="json") | {"task": task}


def redact_finding(number: int, event: events.FindingMade) -> dict[str, Any]:
    """Returns a finding without answers: against whom, of which kind, and how many comparisons there were."""
    shown = {"kind", "submission", "finding", "rules", "compared", "length", "batch", "image"}
    words = f"a finding of the kind {event.finding.value}; its evidence is withheld until the labels are released"
    return blank_fields(event, shown) | {"id": f"finding-{number}", "summary": words}


def redact_replay(number: int, event: events.ReplayJudged) -> dict[str, Any]:
    """Returns what a replay covered, without the job's id, which is a digest."""
    body = event.model_dump(mode="json")
    counts = {key: value for key, value in body.items() if isinstance(value, int | float)}
    return blank_fields(event, {"kind", "submission"}) | counts | {"job": f"replay-{number}"}


def blank_fields(event: BaseModel, shown: AbstractSet[str]) -> dict[str, Any]:
    """Returns an event as JSON with every field but the shown ones empty."""
    body = event.model_dump(mode="json")
    kinds = type(event).model_fields
    return {key: value if key in shown else _empty_value(kinds[key].annotation) for key, value in body.items()}


def _empty_value(annotation: Any) -> Any:
    if annotation is NoneType or NoneType in get_args(annotation):
        return None
    kind = get_origin(annotation) or annotation
    return kind()
