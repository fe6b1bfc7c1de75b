"""All kinds of events that a ledger may hold: the core events, and the events of each installed format."""

from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from orchestrator import plugins
from orchestrator.domain import events
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.errors import UsageError


def parse_event(body: dict[str, Any]) -> events.Event:
    """Returns the event that a ledger entry holds.

    Raises:
        pydantic.ValidationError: it is not an event.
        UsageError: it is an event of a format that is not installed, or that has no such event.
    """
    kind = body.get("kind")
    if isinstance(kind, str) and "." in kind:
        return format_event_type(kind).model_validate(body)
    return events.parse_core_event(body)


def event_models() -> dict[str, type[BaseModel]]:
    """Returns the model of every kind of event, by kind: the core events, then those of the installed formats."""
    core = {model.model_fields["kind"].default: model for model in get_args(events.CoreEvent)}
    formats = (plugins.load_plugin("formats", name) for name in plugins.plugin_names("formats"))
    return core | {each.model_fields["kind"].default: each for one in formats for each in one.event_types}


@cache
def format_event_type(kind: str) -> type[FormatEvent]:
    """Returns the model of a format's event by its kind, such as `tournament.finalists_promoted`. Raises UsageError."""
    name, _, _ = kind.partition(".")
    known = {each.model_fields["kind"].default: each for each in plugins.load_plugin("formats", name).event_types}
    if kind not in known:
        raise UsageError(f"the format {name} has no event {kind!r}; it has {', '.join(known) or 'none'}")
    model: type[FormatEvent] = known[kind]
    return model
