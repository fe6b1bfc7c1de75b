"""Logs: readable lines for people, JSON lines for machines, both on stderr.

Events are past-tense snake case (`job_finished`), values are never in the event's text, and every line of a round is
bound to contest, round, job and submission where they apply.
"""

import logging
import sys
from typing import Any

import structlog

from orchestrator.domain.text import printable


def configure_logging(*, json_lines: bool = False, verbose: bool = False, quiet: bool = False) -> None:
    """Sets up logging for the whole process: debug lines with `verbose`, warnings only with `quiet`."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    renderer: Any = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if json_lines
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24)
    )
    structlog.configure(
        processors=[
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


def _make_printable(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Makes every text value printable: a log line may carry words of a submission."""
    return {key: printable(value, 2000) if isinstance(value, str) else value for key, value in event.items()}
