"""`sparring submission logs`: shows what became of one submission, in words that its team may read."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import round_record
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.season import Entry
from orchestrator.domain.text import counted_noun, shell_word
from orchestrator.errors import UsageError
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.scoring import fault_texts
from orchestrator.scoring.results_file import SubmissionPart


@console.command
def logs(
    folder: season.ContestDir,
    submission: Annotated[str, typer.Argument(help="The submission's id.", metavar="SUBMISSION")],
    phase: Annotated[str | None, typer.Option("--round", help="Only this round.")] = None,
    task: season.OnlyTask = None,
    as_json: Json = False,
) -> None:
    """Show what became of a submission in each round, in words that may be shown to its team.

    What its programs wrote is not in it: they could have written hidden labels (A2). `sparring round status` shows
    organizers their messages.
    """
    _, found = seasons.read_contest(folder)
    entry = found.entries.get(submission)
    if entry is None:
        raise UsageError(
            f"{submission!r} was not received in {folder}; "
            f"`sparring submission list {shell_word(folder)}` says what was"
        )
    begun = [*seasons.begun_rounds(folder, phase, task)]
    if phase is not None and not begun:
        raise UsageError(f"no round {phase!r} of {folder} was begun; leave --round out for all that were")
    rounds = list(_round_documents(begun, entry))
    if as_json:
        console.print_json({"submission": entry.id, "team": entry.team, "rounds": rounds})
        return
    out.print(f"{entry.id} of {safe_text(entry.team)}, received {entry.received_at}", soft_wrap=True)
    if not rounds:
        out.print("in no round that was begun", soft_wrap=True)
    for each in rounds:
        out.print(f"{each['round']} of {safe_text(each['task'])}: {each['status']}", soft_wrap=True)
        for line in each["lines"]:
            out.print(f"  {safe_text(line, 400)}", soft_wrap=True)


def _round_documents(begun: Sequence[RoundFolder], entry: Entry) -> Iterator[dict[str, Any]]:
    for each in begun:
        results = round_record.read_results(each)
        for part in results.submissions:
            if part.id == entry.id:
                yield {
                    "round": results.round,
                    "task": results.task.name,
                    "status": part.status,
                    "lines": list(describe_submission(part)),
                }


def describe_submission(part: SubmissionPart) -> Iterator[str]:
    """Yields what became of a submission in a round, a line for each fault and reason, without its own words."""
    for fault in part.faults:
        counts = f"{fault.code}, {fault.times} times, {fault.pictures} pictures charged"
        yield f"{counts}: {fault.message} (sparring explain {fault.code})"
    for line in fault_texts.forfeit_lines(dict(part.forfeit_reasons.items())):
        yield f"candidates that do not count: {line}"
    for finding in part.findings:
        yield f"finding {finding}"
    yield f"{counted_noun(part.sandboxes, 'sandbox', 'sandboxes')}, {part.seconds:.1f} s of work"
