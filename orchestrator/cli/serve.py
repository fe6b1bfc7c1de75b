"""`sparring serve`: serves a contest as a site, and runs a worker for it."""

import importlib.util
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.cli import console
from orchestrator.cli.console import out, safe_text
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.web.settings import WebSettings

_NEEDS = ("django", "allauth", "ninja", "uvicorn")
PORT = 8000
"""The default port."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Listening:
    """Options for the address of the service."""

    host: Annotated[str, typer.Option("--host", help="The address on which the server listens.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port on which the server listens.")] = PORT
    address: Annotated[
        str | None,
        typer.Option("--address", help="The site's public address, such as https://cup.example.org; also in web.yaml."),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            envvar="SPARRING_DATABASE",
            help="Keep accounts in PostgreSQL: postgresql://USER@HOST/DATABASE. Default: in DIR.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options for how the service's worker plays."""

    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only the site; `sparring work` runs elsewhere on the same folder.")
    ] = False
    backend: Annotated[
        str | None, typer.Option("--backend", help="Where players run, as for `sparring round run`.")
    ] = None
    allow_unisolated: console.Unisolated = False
    slots: Annotated[int | None, typer.Option("--slots", help="Jobs at once, as for `sparring round run`.")] = None


@console.command
def serve(
    folder: Annotated[Path, typer.Argument(help="The contest's folder.", metavar="DIR")],
    where: Listening = Listening(),
    play: WorkerOptions = WorkerOptions(),
    verbose: Annotated[bool, typer.Option("--verbose", help="Write every log line on stderr.")] = False,
    as_json: console.Json = False,
) -> None:
    """Serve a contest as a site with its pages and its API, and run the worker that admits and plays beside it.

    The first start prints a link: the first person who opens it can become an organizer.
    """
    console.quiet_logs(log_json=False, verbose=verbose)
    if play.no_worker:
        given = {"--backend": play.backend, "--slots": play.slots, "--allow-unisolated": play.allow_unisolated}
        remedy = "no worker plays here; give them to `sparring work`, or leave --no-worker out"
        console.refuse_ignored(given, remedy)
    run_service(folder, where, play, as_json=as_json)


def run_service(folder: Path, where: Listening, play: WorkerOptions, *, as_json: bool) -> None:
    """Serves the contest in a folder until a signal ends the process.

    Raises:
        UsageError: the service's libraries are missing, there is no contest, or the address cannot be used.
    """
    if missing := [name for name in _NEEDS if importlib.util.find_spec(name) is None]:
        raise UsageError(f"{', '.join(missing)} is missing; pip install 'sparring[web]'")
    # Importing Django takes a second, and only this command needs it.
    from orchestrator.web import setup  # noqa: PLC0415

    file = setup.read_web_file(folder)
    address = where.address or file.address or _own_address(where)
    contest_folder = ContestFolder(folder)
    contest_folder.require()
    if not play.no_worker:
        from orchestrator.application.contests import worker  # noqa: PLC0415  other commands import this module

        options = RunOptions(play.backend, play.slots, play.allow_unisolated)
        worker.require_isolation(Contest(contest_folder.file), options)
    settings = WebSettings(contest=folder.resolve(), address=address, database=where.database, file=file)
    setup.configure(settings)
    setup.make_tables()
    from orchestrator.web import housekeeping, server, unrestricted_mails  # noqa: PLC0415  not before Django is configured
    from orchestrator.web.contest_site import current_site  # noqa: PLC0415

    link = server.first_link()
    _announce(folder, settings, link, as_json=as_json)
    with ExitStack() as stack:
        stack.enter_context(housekeeping.swept_daily(current_site()))
        stack.enter_context(unrestricted_mails.mailing_outcomes(current_site()))
        if not play.no_worker:
            stack.enter_context(server.running_worker(_worker_words(folder, play)))
        server.serve(where.host, where.port)


def _announce(folder: Path, settings: WebSettings, link: str | None, *, as_json: bool) -> None:
    if as_json:
        console.print_json({"site": settings.address, "organizer_link": link, "folder": str(folder)})
        return
    out.print(f"site     {settings.address}", soft_wrap=True)
    if link is not None:
        out.print(f"organize {link}: open it within 24 hours to become an organizer", soft_wrap=True)
    if settings.file.mail is None:
        out.print("mail     none: codes are written to this log; name a mail server in web.yaml", soft_wrap=True)
    out.print(f"folder   {safe_text(str(folder))}; end with Ctrl-C", soft_wrap=True)


def _own_address(where: Listening) -> str:
    if where.host not in _LOOPBACK:
        raise UsageError(f"say where people find it: --address, since it listens at {where.host} for other machines")
    return f"http://{where.host}:{where.port}"


def _worker_words(folder: Path, play: WorkerOptions) -> list[str]:
    words = [str(folder)]
    words += ["--backend", play.backend] if play.backend else []
    words += ["--slots", str(play.slots)] if play.slots else []
    return words + (["--allow-unisolated"] if play.allow_unisolated else [])
