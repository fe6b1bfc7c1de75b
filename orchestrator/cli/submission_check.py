"""`sparring submission check`, `try` and `debug`: what participants do before they submit."""

import shlex
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import reports, resources
from orchestrator.application.submissions import picture_check, self_check
from orchestrator.application.submissions.in_process_player import InProcessPlayer, open_in_process_player
from orchestrator.application.submissions.self_check import CheckReport, CheckSubject, TryResult
from orchestrator.cli import console, output_paths, results_output
from orchestrator.cli.console import Backend, ExitCode, Json, err, out, safe_text
from orchestrator.cli.season import ImageSide
from orchestrator.domain.access import AccessKind
from orchestrator.domain.outcomes import Forfeit
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import SparringError, SubmissionFault, UsageError
from orchestrator.files import write_whole
from orchestrator.intake import manifest
from orchestrator.intake.compliance.debug_session import DebugSession, ReplyComparison
from orchestrator.intake.compliance.trial_match import CheckStep
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.protocol import transcript

STDERR_LINES = 20
"""The most lines of a player's stderr that are shown."""
_DEFAULT_CONTEST = (
    "This is the shipped contest, on handwritten digits: for other pictures give the contest file of yours, "
    "`--contest FILE`"
)
_BEFORE_PLAY = frozenset({self_check.MANIFEST_STEP, self_check.BUILD_STEP, self_check.POLICY_STEP})
"""The steps in which no picture is played."""
_BATCH = 4
_MARKS = {True: "[green]passed[/]", False: "[bold red]FAILED[/]", None: "[dim]skipped[/]"}

SubjectArgument = Annotated[
    str,
    typer.Argument(
        help="A folder with a submission.yaml, an image, or an archive of pictures where the contest takes them.",
        metavar="PATH|IMAGE",
    ),
]


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options for the terms of a check: contest, task, backend and access."""

    contest: Annotated[
        Path | None,
        typer.Option(
            "--contest", help="The contest file that its organizers gave you; default: a shipped one, on digits."
        ),
    ] = None
    task: Annotated[str | None, typer.Option("--task", help="The task; required if there are several.")] = None
    backend: Backend = "process"
    side: ImageSide = None
    access: Annotated[
        AccessKind | None,
        typer.Option("--access", help="What an attack may ask the defence; default: the contest's."),
    ] = None

    @property
    def is_default_contest(self) -> bool:
        """Whether the shipped contest is used, because none was named."""
        return self.contest is None

    def read_contest(self) -> Contest:
        """Returns the contest with the wanted access model; the number of queries is the contest's own.

        Raises UsageError if there is no such file.
        """
        contest = Contest(
            contest_file(self.contest or resources.resource_path("examples", "trial-match", "contest.yaml"))
        )
        return contest if self.access is None else contest.with_access(self.access)


@console.command
def check(
    what: SubjectArgument = ".",
    options: CheckOptions = CheckOptions(),
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the conversation to this file, as a transcript.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Play what the organizers play before they receive a submission, step by step, and say what to fix.

    Exits with 1 when a step failed. The first failure ends it.
    """
    if save is not None:
        output_paths.require_file_path(save, "--save")
    contest = options.read_contest()
    if contest.format.picture_formats() and not _is_program(Path(what), options):
        given = {"--save": save, "--side": options.side, "--access": options.access}
        console.refuse_ignored(given, "no program plays where pictures are submitted; leave it out")
        _check_pictures(Path(what), contest, options.task, as_json=as_json)
        return
    _begin(options)
    steps: list[CheckStep] = []

    def on_step(step: CheckStep) -> None:
        if not as_json:
            _print_step(len(steps) + 1, step)
        steps.append(step)

    subject = _subject(what, options)
    if not as_json:
        out.print(_terms_line(options, contest), soft_wrap=True)
    with self_check.check_setup(contest, options.task, options.backend) as setup:
        done = self_check.check_submission(subject, setup, on_step)
    if save is not None:
        _save_transcript(save, done.conversation, what, options)
    if as_json:
        console.print_json(_document(done))
    else:
        _print_outcome(done, options)
    if not done.passed:
        raise typer.Exit(ExitCode.FAILED)


def _is_program(path: Path, options: CheckOptions) -> bool:
    """Returns whether the organizers' hidden model is checked: a program, in a contest whose teams submit pictures."""
    return (path / manifest.FILE_NAME).exists() or (options.backend != "process" and not path.exists())


def _print_outcome(done: CheckReport, options: CheckOptions) -> None:
    if done.passed:
        out.print("[bold green]it would be received[/]" + _near_limit_text(done))
        return
    _print_failure(done)
    if options.is_default_contest and done.steps[-1].name not in _BEFORE_PLAY:
        out.print(f"\n{_DEFAULT_CONTEST}", soft_wrap=True)


def _terms_line(options: CheckOptions, contest: Contest) -> str:
    """Returns a line with the contest, the task, and the shape and number of classes of its pictures."""
    name = options.task or contest.only_task
    task = contest.make_task(contest.load_samples(name), name)
    shape = " x ".join(str(size) for size in task.shape)
    line = f"plays    {contest.file.contest}, task {name}: pictures of {shape}, {len(task.classes)} classes"
    return safe_text(f"{line}. {_DEFAULT_CONTEST}" if options.is_default_contest else line, 1000)


def _check_pictures(path: Path, contest: Contest, task: str | None, *, as_json: bool) -> None:
    """Prints whether an archive of pictures would be received, and the measures that need no hidden model."""
    found = picture_check.check_pictures(path, contest, task)
    if as_json:
        console.print_json({"passed": not found.beyond_budget, **asdict(found)})
    else:
        out.print(
            f"pictures {found.pictures}, {found.changed} of them changed; {safe_text(found.decoder)}", soft_wrap=True
        )
        out.print(f"digest   {found.digest}", soft_wrap=True)
        out.print(f"distance at most {found.largest}/255 in a value, median over pictures {found.median:g}/255")
        for name, value in found.measures.items():
            out.print(f"{name:8} {value:.6f}, the mean over all pictures")
        if not found.beyond_budget:
            out.print("[bold green]it would be received[/]")
        else:
            out.print(
                f"[bold red]{found.beyond_budget} pictures are beyond the budget (A14)[/]: they would not count; "
                "JPEG moves values by more than a small budget, so submit PNG or npz",
                soft_wrap=True,
            )
    if found.beyond_budget:
        raise typer.Exit(ExitCode.FAILED)


@console.command
def try_(
    what: SubjectArgument,
    against: Annotated[str, typer.Option("--against", help="A baseline of the contest, of the other side.")],
    options: CheckOptions = CheckOptions(),
    pictures: Annotated[
        Path | None, typer.Option("--pictures", help="The page with pictures; default: trial.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Play a submission against one baseline on public pictures, print the accuracy, and write a page with pictures.

    Exits with 1 when the submission broke a limit or the protocol.
    """
    target = output_paths.require_file_path(pictures or Path("trial.html"), "--pictures")
    _begin(options)
    with (
        self_check.check_setup(options.read_contest(), options.task, options.backend) as setup,
        results_output.progress_bar() as watch,
    ):
        tried = self_check.play_against(
            self_check.admit_applicant(_subject(what, options), setup), against, setup, watch
        )
    lines = _try_lines(tried)
    _write(target, reports.render_trial(f"{tried.attack} against {tried.defence}", lines, tried.examples))
    if as_json:
        console.print_json(_try_document(tried, target))
    else:
        for line in (*lines, f"pictures {target}"):
            out.print(safe_text(line), soft_wrap=True)
    if any(place.startswith(f"{tried.applicant}: ") for place in tried.faults):
        raise typer.Exit(ExitCode.FAILED)


@console.command
def debug(
    what: SubjectArgument = ".",
    options: CheckOptions = CheckOptions(),
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, max=4096, help="Pictures in the first question; default: 4.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the conversation to this file, as a transcript.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Ask the questions of this transcript, and compare the replies.")
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run a Python player here, without time limits: for breakpoint().")
    ] = False,
    as_json: Json = False,
) -> None:
    """Talk to a player: hello and one question, then what you type; show every frame, and its stderr at the end.

    Without a terminal it ends after the first question. Exits with 1 after a fault, or where a reply differs.
    """
    if in_process:
        if save is not None or replay is not None or as_json or options.backend != "process":
            raise UsageError("with --in-process, leave --save, --replay, --json and --backend out")
        _debug_in_process(what, options, batch or _BATCH)
        return
    if replay is not None:
        console.refuse_ignored({"--batch": batch}, "the transcript says how many pictures are asked; leave it out")
    if save is not None:
        output_paths.require_file_path(save, "--save")
    _begin(options)
    recorded = None if replay is None else transcript.read_transcript(_read_transcript(replay))
    with self_check.check_setup(options.read_contest(), options.task, options.backend) as setup:
        applicant = self_check.admit_applicant(_subject(what, options), setup)
        with self_check.debug_session(applicant, setup) as session:
            failed = _converse(session, batch or _BATCH, quiet=as_json) if recorded is None else ""
            compared = [] if recorded is None else list(session.replay_transcript(recorded))
        entries, stderr = session.transcript, session.recorder.stderr
    if save is not None:
        _save_transcript(save, entries, what, options)
    if as_json:
        console.print_json(_debug_document(entries, stderr, failed, compared))
    elif recorded is None:
        _print_stderr(stderr)
    else:
        _print_comparison(compared)
    if failed or not all(one.is_same for one in compared):
        raise typer.Exit(ExitCode.FAILED)


def _debug_in_process(what: str, options: CheckOptions, batch: int) -> None:
    """Asks a player whose code runs in this process, and prints its answers after the gate."""
    folder = _subject(what, options).folder
    if folder is None:
        raise UsageError("only a folder can be played with --in-process")
    with self_check.check_setup(options.read_contest(), options.task, options.backend) as setup:
        try:
            with open_in_process_player(folder, setup, limits=False) as player:
                asked = batch
                while asked:
                    _show_answers(player, asked)
                    asked = _prompt_count() if out.is_terminal else 0
        except SubmissionFault as fault:
            out.print(f"[bold red]{fault.code}[/]: {safe_text(str(fault))}", soft_wrap=True)
            raise typer.Exit(ExitCode.FAILED) from None
        except (SparringError, typer.Abort):
            raise
        except Exception:  # noqa: BLE001  shows any exception of the player's own code
            traceback.print_exc()
            raise typer.Exit(ExitCode.FAILED) from None


def _show_answers(player: InProcessPlayer, count: int) -> None:
    """Asks about the first pictures, and prints a line for each."""
    some = player.samples.first(min(count, len(player.samples)))
    truth = [int(label) for label in some.labels]
    if player.side is Side.DEFENCE:
        for number, (label, given) in enumerate(zip(truth, player.classify(some.pixels).labels, strict=True)):
            out.print(f"picture {number}: label {given}, true label {label}")
        return
    made = player.perturb(some.pixels, truth)
    for number, (forfeit, distance) in enumerate(zip(made.forfeits, made.distances, strict=True)):
        judged = "admissible" if forfeit == Forfeit.NONE else f"forfeit: {Forfeit(forfeit).name.lower()}"
        out.print(f"picture {number}: {judged}, distance {distance:.2f}/255")


def _converse(session: DebugSession, batch: int, *, quiet: bool) -> str:
    """Asks questions until the user ends the conversation; returns the fault that ended it, or ""."""
    shown_count = 0

    def print_new_lines() -> int:
        if not quiet:
            out.print(safe_transcript(session.transcript[shown_count:]), end="", soft_wrap=True)
        return len(session.transcript)

    try:
        session.start_player()
        session.ask(batch)
        shown_count = print_new_lines()
        while not quiet and out.is_terminal and (typed := _prompt_count()):
            session.ask(typed)
            shown_count = print_new_lines()
    except SubmissionFault as fault:
        print_new_lines()
        if not quiet:
            out.print(f"[bold red]{fault.code}[/]: {safe_text(str(fault))}", soft_wrap=True)
        return f"{fault.code}: {printable(str(fault))}"
    return ""


def _prompt_count() -> int:
    """Returns the number of pictures for the next question, 0 to end."""
    text = typer.prompt("pictures in the next question, 0 ends", default="1", err=True)
    if not text.isdecimal() or int(text) > 4096:  # noqa: PLR2004  as --batch
        err.print("a number from 0 to 4096, please")
        return _prompt_count()
    return int(text)


def safe_transcript(entries: list[transcript.TranscriptEntry]) -> str:
    """Returns a conversation as it may be printed on a terminal."""
    return "".join(safe_text(line, 400) + "\n" for line in transcript.render_transcript(entries).splitlines())


def _subject(subject: str, options: CheckOptions) -> CheckSubject:
    path = Path(subject)
    if path.is_dir():
        console.refuse_ignored({"--side": options.side}, "the folder's submission.yaml gives the side; leave it out")
        return CheckSubject(folder=path.resolve())
    if path.exists():
        pictures = "; for an archive of pictures give --contest, too" if options.is_default_contest else ""
        raise UsageError(
            f"{subject} is a file; give a folder with a submission.yaml, or the name of an image{pictures}"
        )
    if options.backend == "process":
        raise UsageError(
            f"there is no folder {subject!r}; check the path, or for the name of an image give --backend container"
        )
    return CheckSubject(image=subject, side=options.side)


def _begin(options: CheckOptions) -> None:
    """Keeps logs out of the output of a command, and tells of a backend that isolates nothing."""
    console.quiet_logs(watched=True)
    console.note_unisolated(options.backend)


def _print_step(number: int, step: CheckStep) -> None:
    out.print(f"{number:3} {step.name:16} {_MARKS[step.passed]}  {safe_text(step.detail)}", soft_wrap=True)
    if step.near_limit:
        out.print(f"{'':21}[yellow]warning:[/] {safe_text(step.near_limit, 1000)}", soft_wrap=True)
    if step.passed is False:
        out.print(f"{'':21}[red]{safe_text(step.problem, 1000)}[/]", soft_wrap=True)
        out.print(f"{'':21}remedy: {safe_text(step.remedy, 1000)}", soft_wrap=True)


def _print_failure(done: CheckReport) -> None:
    if done.steps[-1].name == self_check.BUILD_STEP:
        out.print("\nthe end of the build log:" if done.build_log else "\nthe builder was not asked")
        for line in done.build_log[-STDERR_LINES:]:
            out.print(f"  {safe_text(line)}", soft_wrap=True)
    if done.steps[-1].name in _BEFORE_PLAY:
        return
    if done.conversation:
        out.print("\nthe conversation (> to the player, < from it):")
        out.print(safe_transcript(done.conversation), end="", soft_wrap=True)
    _print_stderr(done.stderr)


def _print_stderr(stderr: bytes) -> None:
    lines = stderr.decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
    out.print("\nits last words on stderr:" if lines else "\nit wrote nothing to stderr")
    for line in lines:
        out.print(f"  {safe_text(line)}", soft_wrap=True)


def _near_limit_text(done: CheckReport) -> str:
    warned = [step.name for step in done.steps if step.near_limit]
    if not warned:
        return ""
    return f", with {'a warning' if len(warned) == 1 else 'warnings'}: see {', '.join(warned)}"


def _print_comparison(compared: list[ReplyComparison]) -> None:
    for number, one in enumerate(compared, start=1):
        if one.is_same:
            out.print(f"reply {number}: the same")
            continue
        now = [] if one.received is None else [one.received]
        out.print(f"[bold red]reply {number} differs[/]: then, and now")
        out.print(safe_transcript([one.recorded]), end="", soft_wrap=True)
        out.print(safe_transcript(now) if now else "  nothing came in time\n", end="", soft_wrap=True)
    same = sum(one.is_same for one in compared)
    out.print(f"{same} of {len(compared)} replies are the same")


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode())


def _save_transcript(path: Path, entries: list[transcript.TranscriptEntry], what: str, options: CheckOptions) -> None:
    """Writes a conversation, and prints the command that holds it again."""
    _write(path, transcript.write_transcript(entries))
    backend = None if options.backend == "process" else options.backend
    given = (
        ("--contest", options.contest),
        ("--task", options.task),
        ("--backend", backend),
        ("--side", options.side),
        ("--access", options.access),
        ("--replay", path),
    )
    words = ["sparring", "submission", "debug", *([] if what == "." else [what])]
    again = shlex.join([*words, *(word for name, value in given if value is not None for word in (name, str(value)))])
    err.print(f"transcript {safe_text(str(path))}; again: {safe_text(again, 2000)}", soft_wrap=True)


def _read_transcript(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a transcript: {error}") from error


def _document(done: CheckReport) -> dict[str, Any]:
    steps = [{"number": number} | asdict(step) for number, step in enumerate(done.steps, start=1)]
    entries = [entry.model_dump(mode="json", exclude={"payload"}) for entry in done.conversation]
    return {"passed": done.passed, "steps": steps, "said": entries, "stderr": printable(done.stderr, 10_000)}


def _try_lines(tried: TryResult) -> list[str]:
    loss = 100 * float(tried.clean.accuracy - tried.attacked.accuracy)
    forfeits = f"; {tried.attacked.forfeits} candidates do not count" if tried.attacked.forfeits else ""
    return [
        f"clean    {self_check.accuracy_text(tried.clean)} of {tried.clean.total} pictures held by {tried.defence}",
        f"attacked {self_check.accuracy_text(tried.attacked)} held under {tried.attack}",
        f"delta    {loss:.1f} points{forfeits}",
        *(f"fault    {place} on {count} pictures" for place, count in tried.faults.items()),
    ]


def _try_document(tried: TryResult, target: Path) -> dict[str, Any]:
    cells = {name: asdict(found) for name, found in (("clean", tried.clean), ("attacked", tried.attacked))}
    return {
        "attack": tried.attack,
        "defence": tried.defence,
        "cells": cells,
        "faults": tried.faults,
        "pictures": str(target),
    }


def _debug_document(
    entries: list[transcript.TranscriptEntry], stderr: bytes, failed: str, compared: list[ReplyComparison]
) -> dict[str, Any]:
    return {
        "said": [entry.model_dump(mode="json", exclude={"payload"}) for entry in entries],
        "stderr": printable(stderr, 10_000),
        "fault": failed,
        "replies": [one.is_same for one in compared],
    }
