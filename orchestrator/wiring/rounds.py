"""A round put together: played, read again, reported."""

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator import plugins
from orchestrator.arena.dispatcher import Dispatcher, Watch
from orchestrator.arena.planner import lay_out
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Backend
from orchestrator.domain.ids import digest
from orchestrator.errors import InfrastructureFault, UsageError
from orchestrator.intake.admission import Admitted, admit
from orchestrator.intake.contest_file import Contest
from orchestrator.record import Record
from orchestrator.results import cells_csv, gallery, report
from orchestrator.results.document import Results
from orchestrator.results.scoring import Scoring
from orchestrator.wiring import machine
from orchestrator.wiring.folders import RoundFolder

ROUND = "round-1"
"""The name of a round: a contest file describes one."""


@dataclass(frozen=True, slots=True)
class How:
    """How the operator wants a round played."""

    backend: str = "process"
    slots: int | None = None
    allow_unisolated: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """A round's results and where they were written."""

    results: Results
    results_file: Path
    cells_file: Path
    report_file: Path


def play(contest: Contest, out: Path, how: How, watch: Watch) -> Reported:
    """Plays a round, or what is left of it, and writes its results.

    Raises:
        Rejected: the contest file or a submission cannot play.
        UsageError: `out` holds something else.
        InfrastructureFault: something of ours failed at every attempt; run again to go on.
        Cancelled: the operator ended it; run again to go on.
    """
    folder = RoundFolder(out)
    folder.create()
    backend = machine.backend(how.backend, out, allow_unisolated=how.allow_unisolated)
    backend.check(contest.file.runtime)
    with folder.locked():
        backend.sweep()
        engine = machine.engine(contest.file.sandbox_policy().limits, how.slots)
        setting = _setting(contest, folder, backend, admit(contest, backend.admit))
        plan = lay_out(setting, contest.format.cells(setting.roster))
        ledger = folder.ledger()
        try:
            record = Record(setting.blobs, (entry.event for entry in ledger.read()))
            dispatcher = Dispatcher(setting, plan, ledger, record, _now, watch)
            if record.round.opened is None:
                dispatcher.open(contest.file.model_dump(mode="json"))
            else:
                _check_same(record, contest, setting, out)
            dispatcher.run(engine)
        finally:
            ledger.close()
            with suppress(
                InfrastructureFault
            ):  # what could not be ended while the engine was away; else the next sweep
                backend.sweep(ended=setting.run)
        return write(folder)


def read(out: Path) -> tuple[Record, str]:
    """Returns the record of the round in a folder, and the hash of its last ledger entry."""
    folder = RoundFolder(out)
    folder.require()
    ledger = folder.ledger()
    try:
        return Record(folder.blobs(), (entry.event for entry in ledger.read())), ledger.head
    finally:
        ledger.close()


def results(out: Path) -> Results:
    """Returns the results of the round in a folder, folded from its ledger."""
    record, head = read(out)
    return _scoring(record, out).results(head)


def write(folder: RoundFolder) -> Reported:
    """Folds the ledger and writes results.json, cells.csv and report/index.html."""
    record, head = read(folder.path)
    scoring = _scoring(record, folder.path)
    document = scoring.results(head)
    return Reported(
        results=document,
        results_file=folder.write("results.json", document.model_dump_json(indent=2) + "\n"),
        cells_file=folder.write("cells.csv", cells_csv.render(document)),
        report_file=folder.write("report/index.html", report.render(document, gallery.choose(record, scoring))),
    )


def _scoring(record: Record, out: Path) -> Scoring:
    opened = record.round.opened
    if opened is None:
        raise UsageError(f"the round in {out} was never opened; run it again")
    kind = plugins.find("contests", opened.contest["format"])
    return Scoring(record, kind(kind.rules_type.model_validate(opened.contest["rules"])))


def _setting(contest: Contest, folder: RoundFolder, backend: Backend, admitted: Admitted) -> Setting:
    samples = contest.samples()
    file, rules = contest.file, contest.format.rules
    return Setting(
        contest=file.contest,
        round=ROUND,
        run=f"{file.contest}-{secrets.token_hex(4)}",
        task=contest.task(samples),
        samples=samples,
        policy=file.sandbox_policy(),
        isolation=file.isolation,
        labels=file.labels is True,
        on_missing=rules.on_missing,
        on_violation=rules.on_violation,
        replay_share=file.replay.share,
        replay_repeats=file.replay.repeats,
        seed=file.seed,
        secret=folder.secret(),
        roster=admitted.roster,
        images=admitted.images,
        backend=backend,
        blobs=folder.blobs(),
        clock=time.monotonic,
    )


def _check_same(record: Record, contest: Contest, setting: Setting, out: Path) -> None:
    """Raises UsageError, naming what differs, when the folder holds the round of something else."""
    opened = record.round.opened
    if opened is None:
        return
    now: dict[str, Any] = {
        "the contest file": contest.file.model_dump(mode="json"),
        "the backend": setting.backend.name,
        "the pictures": setting.task.digest,
        "the submissions": {s.id: s.digest for s in setting.roster},
        "the secret": digest(setting.secret),
    }
    then = {
        "the contest file": opened.contest,
        "the backend": opened.backend,
        "the pictures": opened.task.digest,
        "the submissions": {s.id: s.digest for s in record.round.roster},
        "the secret": opened.commitment,
    }
    changed = [name for name, value in now.items() if then[name] != value]
    if changed:
        raise UsageError(
            f"the round in {out} was opened differently: changed since then: {', '.join(changed)}; "
            "put it back to go on, or give a new folder as --out"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
