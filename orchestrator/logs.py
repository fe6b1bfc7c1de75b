"""Configures logging to standard error: readable lines for people, or JSON lines for machines.

Events are named in snake case and the past tense (`job_finished`), without values in the name. Every line of a round
has the contest, round, job and submission to which it belongs.

structlog is imported with the first line: the import takes a third of the time of a short command, and most commands
log nothing.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from orchestrator.domain.text import printable

QUERY_PROGRESS = "queries_asked"
"""The event with the progress of a query job, the only event besides warnings and errors that quiet logs show."""
_Event = MutableMapping[str, Any]
_TEXT_LIMIT = 2000
"""The most characters of a value; a longer one is cut."""
_waiting: list[Callable[[], None]] = []
"""Sets up logging, if it waits for the import of structlog."""


class _Logger:
    """The same as `structlog.get_logger()`, but imports structlog only when it is used."""

    def __getattr__(self, name: str) -> Any:
        import structlog  # noqa: PLC0415  see the module

        for set_up in tuple(_waiting):
            set_up()
        _waiting.clear()
        return getattr(structlog.get_logger(), name)


def get_logger() -> Any:
    """Returns a logger of structlog, without importing structlog."""
    return _Logger()


def configure_logging(*, json_lines: bool = False, verbose: bool = False, quiet: bool = False) -> None:
    """Sets up logging for the whole process: debug lines with `verbose`, only warnings and progress with `quiet`."""
    set_up = partial(_configure, json_lines=json_lines, verbose=verbose, quiet=quiet)
    if "structlog" in sys.modules:
        set_up()
    else:
        _waiting[:] = [set_up]


def _configure(*, json_lines: bool, verbose: bool, quiet: bool) -> None:
    import structlog  # noqa: PLC0415  see the module

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

    def __call__(self, logger: Any, method: str, event: _Event) -> str:
        lines = event.pop("text_lines", ())
        return "\n".join([self._render(logger, method, event), *(f"    {line}".rstrip() for line in lines)])


def _drop_all_but_warnings(_logger: Any, method: str, event: _Event) -> _Event:
    """Returns a warning, an error or the progress event; drops any other event."""
    import structlog  # noqa: PLC0415  see the module

    if method == "info" and event["event"] != QUERY_PROGRESS:
        raise structlog.DropEvent
    return event


def _make_printable(_logger: Any, _method: str, event: _Event) -> _Event:
    """Returns the event with every text printable, also in lists: a log may contain a submission's words."""
    return {key: _printable(value) for key, value in event.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, _TEXT_LIMIT)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return value
