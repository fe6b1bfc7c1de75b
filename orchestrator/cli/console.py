"""What every command shares: output, errors and exit codes.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 the submission's fault or a failed check,
2 usage, 3 infrastructure, 130 ended by the operator.
"""

import contextlib
import functools
import gc
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec, get_type_hints

import typer
from rich.console import Console, ConsoleDimensions
from rich.markup import escape

from orchestrator import logs
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import (
    Cancelled,
    InfrastructureFault,
    NotGenuine,
    Rejected,
    SparringError,
    SubmissionFault,
    UsageError,
)

_FILE_COLUMNS = 180
"""Columns where nobody says how many there are, in a file or a log: there names need not be broken."""


class _WideConsole(Console):
    """A console that is a page wide where it is no terminal and nobody says how wide it is."""

    @property
    def size(self) -> ConsoleDimensions:
        found = super().size
        return found if self.is_terminal or "COLUMNS" in os.environ else ConsoleDimensions(_FILE_COLUMNS, found.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        Console.size.fset(self, new_size)  # type: ignore[attr-defined]


out = _WideConsole(highlight=False)
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())  # a file breaks no line of its own

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead of text.")]
Backend = Annotated[
    str,
    typer.Option(
        "--backend", help="Where players run: process, runc, docker, or container: runc where it works, else docker."
    ),
]
Unisolated = Annotated[
    bool,
    typer.Option(
        "--allow-unisolated", help="Let strangers' submissions run on the process backend, which isolates nothing."
    ),
]
OTHER_SPELLINGS = ("--license", "--flavour")
"""Options that are accepted beside those that documents use: American spelling, and former names."""
GC_THRESHOLDS = (50_000, 20, 50)
"""How seldom Python looks for garbage in cycles: a large round is millions of objects that stay, and few cycles."""
P = ParamSpec("P")
PARSER_ERROR: Any = typer.BadParameter.__bases__[0]
"""What the parser of the command line raises for an option, argument or command that is not there or not right."""


class ExitCode(IntEnum):
    """What a command's exit status means."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    CANCELLED = 130


def exit_code(error: SparringError) -> ExitCode:
    """Returns the exit status that tells an error's kind."""
    match error:
        case Rejected() | SubmissionFault() | NotGenuine():
            return ExitCode.FAILED
        case UsageError():
            return ExitCode.USAGE
        case Cancelled():
            return ExitCode.CANCELLED
        case InfrastructureFault():
            return ExitCode.INFRASTRUCTURE
        case _:
            return ExitCode.INFRASTRUCTURE


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wraps a command: our errors become one clear message and an exit code; with `--json`, one JSON document.

    A parameter whose type is a dataclass stands for its fields: options that belong together come as one value.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        arguments = list(kwargs.values())
        for name, kind in groups.items():
            kwargs[name] = kind(**{field.name: kwargs.pop(field.name) for field in fields(kind)})
        try:
            _require_utf_8(arguments)
            function(*args, **kwargs)
        except SparringError as error:
            fail(error, as_json=bool(kwargs.get("as_json")))
        except KeyboardInterrupt:
            fail(Cancelled("cancelled; run the same command again to go on"), as_json=bool(kwargs.get("as_json")))

    options = list(_options(function, groups))
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _require_utf_8(arguments: Iterable[object]) -> None:
    """Raises UsageError where an argument, or the whole path that it stands for, is not UTF-8.

    Ledgers, JSON documents and pages are UTF-8: they could not name what lies there.
    """
    for argument in arguments:
        for value in argument if isinstance(argument, list | tuple) else [argument]:
            if not isinstance(value, str | Path):
                continue
            text = str(value)
            with contextlib.suppress(OSError):  # the folder that we are in is gone
                text = str(Path(value).absolute()) if isinstance(value, Path) or os.path.lexists(value) else value
            try:
                text.encode()
            except UnicodeEncodeError:
                remedy = "rename it, for example with `mv`, or write the argument in UTF-8"
                raise UsageError(f"{printable(text, 300)}: not UTF-8; {remedy}") from None


def _options(function: Callable[..., None], groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Yields a command's parameters, each group in its place taken apart."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in groups:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
            )


def parse_side(text: str | Side) -> Side:
    """Returns a side by its name, in either spelling. Raises what the parser of the command line reports."""
    if isinstance(text, Side):
        return text
    try:
        return Side("defence" if text.lower() == "defense" else text.lower())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a side; write attack or defence") from None


def fail(error: SparringError, *, as_json: bool) -> None:
    """Prints an error and ends the command with its exit code."""
    if as_json:
        print_json(_error_document(error))
    else:
        print_error(error)
    raise typer.Exit(exit_code(error))


def print_error(error: SparringError) -> None:
    """Prints an error for people."""
    text = "\n".join(printable(line, 2000) for line in str(error).splitlines())
    err.print(f"[bold red]{escape(error.code)}[/]: {escape(text)}", soft_wrap=True)
    err.print(f"[dim]sparring explain {error.code}[/]")


def _error_document(error: SparringError) -> dict[str, Any]:
    """Returns an error as `--json` tells it."""
    problems = [{"place": p.place, "what": p.what, "remedy": p.remedy} for p in getattr(error, "problems", ())]
    return {"error": {"code": error.code, "message": str(error), "problems": problems}}


def run_app(app: typer.Typer, words: list[str], name: str | None = None) -> NoReturn:
    """Runs the command line and ends; with `--json` among its words, what its parser refuses is a JSON document too.

    `name` is what its help calls it, None for the program's own name.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        code = app(words, prog_name=name, standalone_mode="--json" not in words)
    except PARSER_ERROR as error:
        print_json(_error_document(UsageError(error.format_message())))
        code = ExitCode.USAGE
    sys.exit(code)


def print_sentences(stream: Console, text: str) -> None:
    """Prints sentences, broken at spaces on a terminal and nowhere else. Commands and paths are printed unbroken."""
    stream.print(text, soft_wrap=not stream.is_terminal)


def print_json(document: Any) -> None:
    """Prints a JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def safe_text(text: str, limit: int = 300) -> str:
    """Returns text of a submission fit for the terminal: no control characters, no markup."""
    return escape(printable(text, limit))


def quiet_logs(*, log_json: bool = False, verbose: bool = False, watched: bool = False) -> None:
    """Sets up logs: all lines where they are asked for or nobody watches a progress bar, else warnings and progress."""
    quiet = (watched or err.is_terminal) and not (verbose or log_json)
    logs.configure_logging(json_lines=log_json, verbose=verbose, quiet=quiet)
