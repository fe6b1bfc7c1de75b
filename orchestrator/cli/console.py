"""Output, errors and exit codes of all commands.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 the submission's fault or a failed check,
2 usage, 3 infrastructure, 130 ended by the operator, 141 ended because nobody reads the output.
"""

import contextlib
import errno
import functools
import gc
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""The width in columns for a file or a log, which has none of its own: wide enough to break no names."""


class _Console(Console):
    """A console that leaves a closed pipe to `_output_errors`: rich would exit with 1, as after a failed check."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _WideConsole(_Console):
    """A console with the width `_FILE_COLUMNS` if it is no terminal and its width is not set."""

    @property
    def size(self) -> ConsoleDimensions:
        found = super().size
        return found if self.is_terminal or "COLUMNS" in os.environ else ConsoleDimensions(_FILE_COLUMNS, found.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        Console.size.fset(self, new_size)  # type: ignore[attr-defined]


out = _WideConsole(highlight=False)
err = _Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())  # a file breaks no line of its own

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
GC_THRESHOLDS = (50_000, 200, 5)
"""Thresholds for rare garbage collection: a large round has millions of objects that stay, and few cycles.

The middle generation is collected after 10 million new objects: a round of 300 x 300 makes 5 million, and to look at
each once more takes 3 % of its time.
"""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a disk, or of a share of it, that has no space."""
P = ParamSpec("P")
PARSER_ERROR: Any = typer.BadParameter.__bases__[0]
"""The exception of the command line's parser for an option, argument or command that is unknown or invalid."""


class ExitCode(IntEnum):
    """The exit codes of commands."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    CANCELLED = 130
    NO_READER = 141


def refuse_ignored(given: Mapping[str, object], why: str) -> None:
    """Raises UsageError if any of these options was given, since the command would ignore it. `why` has the remedy.

    An option that was not given is None, False or empty; a number is always one that was given.
    """
    if names := [name for name, value in given.items() if value is not False and (value or value == 0)]:
        raise UsageError(f"{' and '.join(names)} would be ignored: {why}")


def exit_code(error: SparringError) -> ExitCode:
    """Returns the exit code for an error."""
    match error:
        case Rejected() | SubmissionFault() | NotGenuine():
            return ExitCode.FAILED
        case UsageError():
            return ExitCode.USAGE
        case Cancelled():
            return ExitCode.CANCELLED
        case _:
            return ExitCode.INFRASTRUCTURE


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wraps a command so that our errors become a message, or with `--json` a JSON document, and an exit code.

    A parameter whose type is a dataclass becomes one option for each of its fields, so that options that belong
    together are one value.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        arguments = list(kwargs.values())
        for name, kind in groups.items():
            kwargs[name] = kind(**{field.name: kwargs.pop(field.name) for field in fields(kind)})
        with _output_errors():
            try:
                _require_utf_8(arguments)
                function(*args, **kwargs)
            except SparringError as error:
                fail(error, as_json=bool(kwargs.get("as_json")))
            except KeyboardInterrupt:
                fail(Cancelled("run the same command again to continue"), as_json=bool(kwargs.get("as_json")))

    options = list(_options(function, groups))
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


@contextlib.contextmanager
def _output_errors() -> Iterator[None]:
    """Ends a command whose standard output cannot be written: without a traceback, and with an exit code of its own.

    A program that reads the output may end first, as `head` does, and a file for the output may lie on a full disk.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(ExitCode.NO_READER) from None
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _discard_output()
        what = f"the output cannot be written: {error.strerror}; make space, or write it elsewhere"
        fail(InfrastructureFault(what), as_json=False)


def _discard_output() -> None:
    """Sends what standard output still holds nowhere; Python would report it again when it ends."""
    with contextlib.suppress(OSError, ValueError):  # an output without a file descriptor reports nothing later
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _require_utf_8(arguments: Iterable[object]) -> None:
    """Raises UsageError if an argument, or the absolute path that it stands for, is not UTF-8.

    Ledgers, JSON documents and pages are UTF-8, and so could not name such a path.
    """
    for argument in arguments:
        for value in argument if isinstance(argument, list | tuple) else [argument]:
            if not isinstance(value, str | Path):
                continue
            text = str(value)
            with contextlib.suppress(OSError):  # the current folder was removed
                text = str(Path(value).absolute()) if isinstance(value, Path) or os.path.lexists(value) else value
            try:
                text.encode()
            except UnicodeEncodeError:
                remedy = "rename it, for example with `mv`, or write the argument in UTF-8"
                raise UsageError(f"{printable(text, 300)}: not UTF-8; {remedy}") from None


def _options(function: Callable[..., None], groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Yields a command's parameters, with each dataclass replaced by its fields."""
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
    """Returns a side by its name, in either spelling. Raises the parser's exception for any other text."""
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
    """Returns an error as the JSON document that `--json` prints."""
    problems = [{"place": p.place, "what": p.what, "remedy": p.remedy} for p in getattr(error, "problems", ())]
    return {"error": {"code": error.code, "message": str(error), "problems": problems}}


def run_app(app: typer.Typer, words: list[str], name: str | None = None) -> NoReturn:
    """Runs the command line and exits. With `--json` among the words, an error of the parser is a JSON document too.

    `name` is the program's name in help texts, None for its own name.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    if sys.stdout is None:  # the shell closed it, as in `sparring board cup >&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end
    try:
        code = app(words, prog_name=name, standalone_mode="--json" not in words)
    except PARSER_ERROR as error:
        print_json(_error_document(UsageError(error.format_message())))
        code = ExitCode.USAGE
    sys.exit(code)


def print_sentences(stream: Console, text: str) -> None:
    """Prints sentences, wrapped at spaces only on a terminal. Print commands and paths without this function."""
    stream.print(text, soft_wrap=not stream.is_terminal)


def print_warning(text: str, stream: Console = out) -> None:
    """Prints a warning, wrapped at spaces only on a terminal."""
    print_sentences(stream, f"[yellow]warning:[/] {safe_text(text, 1000)}")


def print_log_line(line: str) -> None:
    """Prints a line of another program's output on stderr."""
    err.print(safe_text(line, 2000), style="dim", soft_wrap=True)


def note_unisolated(backend: str) -> None:
    """Tells participants on stderr that the process backend isolates nothing, if their player runs there."""
    if backend == "process":
        err.print("[yellow]note:[/] on the process backend your player runs with your rights and is not isolated")


def print_json(document: Any) -> None:
    """Prints a JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_fields(document: dict[str, Any], *, as_json: bool) -> None:
    """Prints a document as JSON, or as a line for each field that is not None."""
    if as_json:
        print_json(document)
        return
    for name, value in document.items():
        if value is not None:
            out.print(f"{name:12} {safe_text(str(value), 2000)}", soft_wrap=True)


def safe_text(text: str, limit: int = 300) -> str:
    """Returns a submission's text as it may be printed on a terminal: without control characters and markup."""
    return escape(printable(text, limit))


def quiet_logs(*, log_json: bool = False, verbose: bool = False, watched: bool = False) -> None:
    """Configures logs: only warnings and progress if a person watches and does not want all lines, else all lines."""
    quiet = (watched or err.is_terminal) and not (verbose or log_json)
    logs.configure_logging(json_lines=log_json, verbose=verbose, quiet=quiet)
