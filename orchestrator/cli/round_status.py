"""`sparring round status`: shows the progress of a round, or of every round of a contest, and what went wrong."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import round_record
from orchestrator.cli import console, replay_output, results_output, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.plan import Stage
from orchestrator.domain.text import shell_word
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes import status_file
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.scoring import fault_texts
from orchestrator.scoring.results_file import Results


@console.command
def status(
    folder: Annotated[
        Path, typer.Argument(help="The --out folder of `sparring round run`, or a contest's folder.", metavar="DIR")
    ],
    phase: Annotated[str | None, typer.Option("--round", help="For a contest's folder: only this round.")] = None,
    task: season.OnlyTask = None,
    as_json: Json = False,
) -> None:
    """Show the progress of a round, or of every begun round of a contest, and what went wrong.

    `sparring status` shows what a contest does now, and what waits.
    """
    found = [read_status(path) for path in round_folders(folder, phase, task)]
    if as_json:
        documents = [each.document() for each in found]
        console.print_json(documents if ContestFolder(folder).exists else documents[0])
        return
    for each in found:
        _print_status(each)


def round_folders(folder: Path, phase: str | None, task: str | None) -> Iterator[Path]:
    """Yields the folder itself, or the folders of a contest's rounds. Raises UsageError if there is none."""
    if not ContestFolder(folder).exists:
        if phase or task:
            raise UsageError("--round and --task are for a contest's folder; leave them out")
        yield folder
        return
    begun = seasons.begun_rounds(folder, phase, task)
    if not begun:
        which = "no such round" if phase or task else "no round"
        raise UsageError(
            f"{which} of {folder} was begun; play one with `sparring round run {shell_word(folder)} ROUND`"
        )
    yield from (each.path for each in begun)


@dataclass(frozen=True)
class RoundStatus:
    """The state of a round by its ledger.

    `last_entry_at` is the time of the ledger's last entry, in UTC; empty without one. `is_played`: whether a process on
    this machine plays the round at this moment.
    """

    folder: Path
    record: RoundView
    results: Results
    last_entry_at: str
    is_played: bool
    controller: status_file.ControllerStatus | None

    @property
    def underway(self) -> list[status_file.AttemptRow]:
        """The rows of a cluster's controller about its unfinished jobs."""
        return self.controller.jobs if self.controller and not self.results.complete else []

    def stages(self) -> dict[str, dict[str, int]]:
        """Returns the number of jobs of each stage, and of those that are finished."""
        jobs = self.results.jobs
        return {
            stage.value: {
                "finished": sum(job.status == "finished" for job in jobs if job.stage is stage),
                "jobs": sum(1 for job in jobs if job.stage is stage),
            }
            for stage in Stage
        }

    def document(self) -> dict[str, Any]:
        """Returns the document that `--json` prints."""
        return {
            "contest": self.results.contest,
            "task": self.results.task.name,
            "round": self.results.round,
            "complete": self.results.complete,
            "is_played": self.is_played,
            "last_entry_at": self.last_entry_at,
            "stages": self.stages(),
            "retried": [failure.model_dump(exclude={"kind"}) for failure in self.record.round.failed_attempts],
            "underway": [row.model_dump(mode="json") for row in self.underway],
            "unproved_network": [event.model_dump(mode="json") for event in self.record.round.probe_overrides],
            "waiting": [part.model_dump(mode="json") for part in self.results.waiting],
            "alarms": self.results.alarms,
            "faulted": [submission.id for submission in self.results.submissions if submission.faults],
            "findings": [finding.id for finding in self.results.findings],
        }


def read_status(folder: Path) -> RoundStatus:
    """Returns the state of the round in a folder; another process may play it meanwhile."""
    record, _ = round_record.read_round(folder)
    with closing(RoundFolder(folder).ledger()) as ledger:
        last = max((entry.time for entry in ledger.read()), default="")
    controller = status_file.read_status(RoundFolder(folder).exchange_path)
    played = RoundFolder(folder).is_played()
    return RoundStatus(folder, record, round_record.compute_results(folder), last, played, controller)


def _print_status(found: RoundStatus) -> None:
    document, record = found.results, found.record
    state = "complete"
    if not document.complete:
        state = "being played" if found.is_played else "not finished"
        state += f", last entry at {found.last_entry_at or 'no time'}"
    name = f"{document.title}, {document.task.name}, {document.round}"
    out.print(f"{safe_text(name)}: {state}", soft_wrap=True)
    if not (document.complete or found.is_played):
        out.print("  nothing plays it on this machine: `sparring round run` goes on where it ended", soft_wrap=True)
    for stage, count in found.stages().items():
        out.print(f"  {stage:9} {count['finished']} of {count['jobs']} jobs finished")
    for event in record.round.probe_overrides:
        when = f"probed {event.probed_at}: {event.outcome}" if event.probed_at else "never probed"
        why = safe_text(event.override_reason)
        out.print(f"  network of {safe_text(event.namespace)} {when}; played all the same: {why}", soft_wrap=True)
    if found.controller and found.controller.note:
        out.print(f"  {safe_text(found.controller.note)}", soft_wrap=True)
    for row in found.underway:
        state_text = f"{row.state}: {safe_text(row.description)}"
        out.print(f"  {row.stage} of {safe_text(row.submission)}, attempt {row.attempt}: {state_text}", soft_wrap=True)
    results_output.print_alarms(document, indent="  ")
    for failure in record.round.failed_attempts:
        out.print(f"  ours, tried again: job {failure.job}: {safe_text(str(failure.message))}", soft_wrap=True)
    recorded = fault_texts.first_messages(record.round)
    for submission in document.submissions:
        for fault in submission.faults:
            message = recorded[submission.id, fault.code, fault.reason]
            counts = f"{fault.times} times, {fault.pictures} pictures charged"
            out.print(f"  {safe_text(submission.id)}: {fault.code}, {counts}: {safe_text(message)}", soft_wrap=True)
    replay_output.print_findings(document, found.folder, indent="  ")
