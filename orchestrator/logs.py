"""Logs: readable lines for people, JSON lines for machines, both on stderr.

Events are past-tense snake case (`job_finished`), values are never in the event's text, and every line of a round is
bound to contest, round, job and submission where they apply.
"""

import logging
import sys
from typing import Any

import structlog

from orchestrator.domain.text import printable

QUERY_PROGRESS = "queries_asked"
"""The event that says how far a query job is, the only one that is no warning and passes where logs are quiet."""
_TEXT_LIMIT = 2000
"""Characters of a value; what is longer is cut."""


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
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # wherever stderr is by then
        cache_logger_on_first_use=False,
    )


class _TextBelow:
    """Writes an event's `text_lines` below its line, each indented, so that people can read and copy from them."""

    def __init__(self, renderer: Any) -> None:
        self._render = renderer

    def __call__(self, logger: Any, method: str, event: structlog.typing.EventDict) -> str:
        lines = event.pop("text_lines", ())
        return "\n".join([self._render(logger, method, event), *(f"    {line}".rstrip() for line in lines)])


def _drop_all_but_warnings(_logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Returns a warning, an error or progress; anything else goes no further."""
    if method == "info" and event["event"] != QUERY_PROGRESS:
        raise structlog.DropEvent
    return event


def _make_printable(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Makes every text value printable, lists of lines too: a log may carry words of a submission."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, _TEXT_LIMIT)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return value
