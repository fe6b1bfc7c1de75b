"""Configures logging to standard error: readable lines for people, or JSON lines for machines.

Events are named in snake case and the past tense (`job_finished`), without values in the name. Every line of a round
has the contest, round, job and submission to which it belongs.
"""

import logging
import sys
from typing import Any

import structlog

from orchestrator.domain.text import printable

QUERY_PROGRESS = "queries_asked"
"""The event with the progress of a query job, the only event besides warnings and errors that quiet logs show."""
_TEXT_LIMIT = 2000
"""The most characters of a value; a longer one is cut."""


def configure_logging(*, json_lines: bool = False, verbose: bool = False, quiet: bool = False) -> None:
    """Sets up logging for the whole process: debug lines with `verbose`, only warnings and progress with `quiet`."""
    level = logging.DEBUG if verbose else logging.INFO
    renderer: Any = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if json_lines
        else _TextBelow(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24))
    )
    structlog.configure(
        processors=[
            *([_drop_all_but_warnings] if quiet and not verbose else []),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _make_printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # looks up sys.stderr when a logger is made
        cache_logger_on_first_use=False,
    )


class _TextBelow:
    """Renders an event's `text_lines` below its line, each indented, so that people can read and copy them."""

    def __init__(self, renderer: Any) -> None:
        self._render = renderer

    def __call__(self, logger: Any, method: str, event: structlog.typing.EventDict) -> str:
        lines = event.pop("text_lines", ())
        return "\n".join([self._render(logger, method, event), *(f"    {line}".rstrip() for line in lines)])


def _drop_all_but_warnings(_logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Returns a warning, an error or the progress event; drops any other event."""
    if method == "info" and event["event"] != QUERY_PROGRESS:
        raise structlog.DropEvent
    return event


def _make_printable(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Returns the event with every text printable, also in lists: a log may contain a submission's words."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, _TEXT_LIMIT)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return value
