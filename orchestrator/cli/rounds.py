"""`sparring round` and `sparring demo`."""

import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import resources
from orchestrator.application.baselines import training
from orchestrator.application.contests import demo_contest, round_requests, season_rounds, seasons
from orchestrator.application.rounds import gpu_check, play_rounds, round_record
from orchestrator.application.rounds.execution_target import ClusterAccess
from orchestrator.cli import (
    console,
    estimate_output,
    output_paths,
    replay_output,
    report,
    results_output,
    round_status,
    round_watch,
    season,
    serve,
)
from orchestrator.cli.console import Backend, Json, Unisolated, out, safe_text
from orchestrator.domain.text import shell_word
from orchestrator.errors import JobsParked, Rejected, UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.scoring.results_file import Results


class DemoFormat(StrEnum):
    """The contests that `sparring demo` plays."""

    TOURNAMENT = "tournament"
    WARMUP = "warmup"


_DEMOS = {
    DemoFormat.TOURNAMENT: resources.resource_path("examples", "demo", "contest.yaml"),
    DemoFormat.WARMUP: resources.resource_path("examples", "warmup", "contest.yaml"),
}
_DEMO_NEEDS = ("foolbox", "safetensors", "sklearn", "torch")
"""The packages that the demo's baselines import in their own processes."""

RETRY_SECONDS = 15.0
"""Seconds between two attempts to start a round that is refused, with `--stay`."""

app = typer.Typer(no_args_is_help=True, help="Play a round and look at it.")

Out = Annotated[Path, typer.Option("--out", help="Folder for ledger, blobs, results and report.", file_okay=False)]
Slots = Annotated[
    int | None, typer.Option("--slots", help="Jobs at the same time; default: as many as cores or GPUs allow.")
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write logs as JSON lines on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Write every log line on stderr.")]


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """Options for where players run."""

    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            help="Where players run: process (the default), runc, docker or container (runc, else docker).",
        ),
    ] = None
    slots: Slots = None
    allow_unisolated: Unisolated = False
    engine: Annotated[
        str,
        typer.Option("--engine", help="Where jobs run: local, or kubernetes, where pods replace the backend."),
    ] = "local"
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="For kubernetes: how to reach it, outside of a pod.")
    ] = None
    context: Annotated[str | None, typer.Option("--context", help="For kubernetes: the context in that file.")] = None
    unproved_network: Annotated[
        str,
        typer.Option(
            "--unproved-network",
            help="For kubernetes: why to play without a probe that shows that players reach nothing.",
        ),
    ] = ""

    def run_options(self, *, log_json: bool) -> play_rounds.RunOptions:
        """Returns these options as `play_rounds` takes them."""
        cluster = ClusterAccess(self.kubeconfig, self.context, self.unproved_network)
        return play_rounds.RunOptions(
            self.backend,
            self.slots,
            self.allow_unisolated,
            self.engine,
            cluster,
            replay_output.forecast_announcer(log_json=log_json),
        )


@dataclass(frozen=True, slots=True)
class ExecutionOptions(PlayOptions):
    """Options for where players run, and whether the command stays afterwards."""

    stay: Annotated[
        bool,
        typer.Option(
            "--stay", help="For a Deployment: try a refused start again, and after the round wait to be ended."
        ),
    ] = False

    def play_until_accepted(self, play: Callable[[], None]) -> None:
        """Calls `play`; with `stay`, again and again while it is refused, so that an operator can correct the reason.

        In a Deployment, nobody could enter a container that has ended: `sparring cluster check` runs in this one.
        """
        last_error = ""
        while True:
            try:
                play()
            except (UsageError, Rejected) as error:
                if not self.stay:
                    raise
                if str(error) != last_error:
                    console.print_error(error)
                    console.err.print(f"trying again every {RETRY_SECONDS:g} s", soft_wrap=True)
                last_error = str(error)
                time.sleep(RETRY_SECONDS)
            else:
                return


@dataclass(frozen=True, slots=True)
class SeasonOptions:
    """Options for a contest in a folder."""

    task: Annotated[str | None, typer.Option("--task", help="For a contest's folder: only this task.")] = None
    by: season.By = None


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """Options for a preview instead of playing."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Play nothing: print what would run, what is reused, and how long it takes."),
    ] = False
    price: Annotated[
        float | None,
        typer.Option("--price", min=0, help="With --dry-run: the price of a slot per hour, in any currency."),
    ] = None


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options for logs."""

    log_json: LogJson = False
    verbose: Verbose = False


@app.command("run", epilog="Example: sparring round run examples/demo/contest.yaml --out round1 --backend docker")
@console.command
def run(
    contest: Annotated[Path, typer.Argument(help="A contest file, or a contest's folder.", metavar="FILE|DIR")],
    phase: Annotated[str | None, typer.Argument(help="For a folder: the round to play.", metavar="ROUND")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="For a file: where the round goes.")] = None,
    season_: SeasonOptions = SeasonOptions(),
    before: DryRunOptions = DryRunOptions(),
    where: ExecutionOptions = ExecutionOptions(),
    logs: LogOptions = LogOptions(),
    as_json: Json = False,
) -> None:
    """Play every attack against every defence, then rank them.

    To continue a round that was interrupted, run the same command again.
    """
    console.quiet_logs(log_json=logs.log_json, verbose=logs.verbose)
    options = where.run_options(log_json=logs.log_json)
    _require_compatible(before, where)
    if not contest.exists():
        raise UsageError(f"there is no {contest}; give a contest file, or a contest's folder")
    if contest.is_dir():
        if phase is None or out_dir is not None:
            ContestFolder(contest).require()
            remedy = f"`sparring contest show {shell_word(contest)}` lists the rounds"
            raise UsageError(f"for a contest's folder give the round to play, and no --out; {remedy}")
        if before.dry_run:
            with seasons.administer(contest, season_.by) as admin:
                estimate_output.print_estimates(
                    season_rounds.preview_round(admin, phase, options, season_.task), before.price, as_json=as_json
                )
            return
        folder, round_name = contest, phase
        where.play_until_accepted(lambda: _play_season(folder, round_name, options, season_, as_json=as_json))
    elif phase is not None or out_dir is None:
        raise UsageError("for a contest file give --out, and no round")
    elif season_ != SeasonOptions():
        raise UsageError("--task and --by would be ignored: they are for a contest's folder; leave them out")
    elif output_paths.require_folder_path(out_dir, "--out") and before.dry_run:
        estimate_output.print_estimates(
            [play_rounds.preview_round(Contest(contest), out_dir, options)], before.price, as_json=as_json
        )
        return
    else:
        file, into = contest, out_dir
        where.play_until_accepted(lambda: _play_file(Contest(file), into, options, as_json=as_json))
    if where.stay:
        _wait_until_ended()


def _require_compatible(before: DryRunOptions, where: ExecutionOptions) -> None:
    """Raises UsageError for options that only play, or only a preview, would heed."""
    if before.price is not None and not before.dry_run:
        raise UsageError("--price is for the estimate of --dry-run; give both")
    if before.dry_run:
        console.refuse_ignored({"--stay": where.stay}, "--dry-run plays nothing; leave one of them out")


@app.command("request", epilog="Example: sparring round request cup initial")
@console.command
def request(
    folder: season.ContestDir,
    phase: Annotated[str, typer.Argument(help="The round.", metavar="ROUND")],
    season_: SeasonOptions = SeasonOptions(),
    as_json: Json = False,
) -> None:
    """Request that a worker (`sparring work`) play a round."""
    with seasons.administer(folder, season_.by) as admin:
        asked = round_requests.request_round(admin, phase, season_.task or "")
    if as_json:
        console.print_json(asdict(asked))
        return
    out.print(f"request  {asked.id}: {safe_text(asked.round)} {safe_text(asked.task or 'of every task')}")


@app.command("cancel", epilog="Example: sparring round cancel cup 4f2a9c01d2e3b4a5")
@console.command
def cancel(
    folder: season.ContestDir,
    request_id: Annotated[str, typer.Argument(help="The request's id.", metavar="ID")],
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Cancel a request for a round. A worker that already plays the round continues."""
    with seasons.administer(folder, by) as admin:
        round_requests.cancel_request(admin, request_id)
    if as_json:
        console.print_json({"cancelled": request_id})
        return
    out.print(f"cancelled {request_id}")


app.command("promote", epilog="Example: sparring round promote cup")(season.promote)
app.command("status", epilog="Example: sparring round status round1")(round_status.status)
app.command("watch", epilog="Example: sparring round watch cup --round final")(round_watch.watch)


@dataclass(frozen=True, slots=True)
class DemoSite:
    """Options for serving the demo as a site."""

    serve_it: Annotated[
        bool, typer.Option("--serve", help="Open it as a site on this machine, whose worker plays the round.")
    ] = False
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="The port of that site; default: 8000.")
    ] = None


@console.command
def demo(
    out_dir: Out = Path("demo"),
    format_name: Annotated[DemoFormat, typer.Option("--format", help="Which contest to play.")] = DemoFormat.TOURNAMENT,
    backend: Backend = "process",
    slots: Slots = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Give every player a GPU: baselines compute with CUDA.")] = False,
    logs: LogOptions = LogOptions(),
    site: DemoSite = DemoSite(),
    as_json: Json = False,
) -> None:
    """Play a whole contest on handwritten digits.

    The tournament has nine baselines and six submissions and takes under a minute. The warm-up attacks three defences
    of sixes and sevens and takes a few minutes on two cores.
    """
    console.quiet_logs(log_json=logs.log_json, verbose=logs.verbose)
    if not site.serve_it:
        console.refuse_ignored({"--port": site.port}, "it is the port of the site; add --serve, or leave it out")
    missing = [name for name in _DEMO_NEEDS if backend == "process" and importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the demo's baselines need {', '.join(missing)}; {training.INSTALL_REMEDY}")
    output_paths.require_folder_path(out_dir, "--out")
    # The demo's submissions are ours, so the process backend may run them.
    options = play_rounds.RunOptions(
        backend, slots, allow_unisolated=True, announce_replays=replay_output.forecast_announcer(log_json=logs.log_json)
    )
    if site.serve_it:
        if format_name is not DemoFormat.TOURNAMENT or gpu:
            raise UsageError("--serve opens the tournament's demo on processors; leave --format and --gpu out")
        _serve_demo(out_dir, options, site.port or serve.PORT, as_json=as_json)
        return
    contest = Contest(_DEMOS[format_name])
    if gpu:
        contest = gpu_check.with_gpus(contest)
        gpu_check.require_gpu(contest, backend)
    _play_file(contest, out_dir, options, as_json=as_json)


def _serve_demo(out_dir: Path, options: play_rounds.RunOptions, port: int, *, as_json: bool) -> None:
    """Serves the demo's contest, which is created first if it does not exist yet."""
    if not ContestFolder(out_dir).exists:
        demo_contest.create_demo(out_dir, options)
    play = serve.WorkerOptions(backend=options.backend, allow_unisolated=True, slots=options.slots)
    serve.run_service(out_dir, serve.Listening(port=port), play, as_json=as_json)


def _play_file(contest: Contest, out_dir: Path, options: play_rounds.RunOptions, *, as_json: bool) -> None:
    reported = None
    with results_output.progress_bar() as watch, _collect_parked() as fault:
        reported = play_rounds.play_round(contest, out_dir, options, watch)
    document = round_record.compute_results(out_dir) if reported is None else reported.results
    if as_json:
        console.print_json(document.model_dump(mode="json"))
    else:
        results_output.print_results(document, out_dir)
        if reported is not None:
            report.print_paths(reported)
            results_output.print_if_idle([document], watch)
    _raise_exit([document], fault, as_json=as_json)


def _play_season(
    folder: Path, phase: str, options: play_rounds.RunOptions, season_: SeasonOptions, *, as_json: bool
) -> None:
    with seasons.administer(folder, season_.by) as admin, results_output.progress_bar() as watch:
        with _collect_parked() as fault:
            season_rounds.play_round(admin, phase, options, watch, season_.task)
        results = season_rounds.latest_results(admin, phase, season_.task)
    results_output.print_season(results, as_json=as_json)
    if not as_json:
        results_output.print_if_idle(results, watch)
    _raise_exit(results, fault, as_json=as_json)


@contextmanager
def _collect_parked() -> Iterator[list[JobsParked]]:
    """Yields an empty list; if the block raises JobsParked, adds the error to the list instead of raising it."""
    faults: list[JobsParked] = []
    try:
        yield faults
    except JobsParked as fault:
        faults.append(fault)


def _raise_exit(documents: list[Results], parked: list[JobsParked], *, as_json: bool) -> None:
    """Exits with 3 if submissions wait for another run, with 1 if a baseline failed on every picture; else returns.

    With `--json`, the document on stdout was printed before, and says both.
    """
    if parked and not as_json:
        raise parked[0]
    if parked:
        raise typer.Exit(console.ExitCode.INFRASTRUCTURE)
    alarmed = [document for document in documents if document.alarms]
    if alarmed and not as_json:
        results_output.print_failed_baselines(alarmed)
    if alarmed:
        raise typer.Exit(console.ExitCode.FAILED)


def _wait_until_ended() -> None:
    """Waits until somebody ends this process, which is no failure, since everything was played."""
    console.err.print("all is played; waiting to be ended", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
