"""A round put together: played, read again, reported."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator import plugins
from orchestrator.arena.dispatcher import Dispatcher, Watch
from orchestrator.arena.earlier import Earlier
from orchestrator.arena.outlook import Outlook, outlook
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Backend
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster
from orchestrator.errors import InfrastructureFault, Parked, UsageError
from orchestrator.intake.admission import Admitted, admit
from orchestrator.intake.contest_file import Contest
from orchestrator.record import Record
from orchestrator.results import cells_csv, gallery, report
from orchestrator.results.document import Results
from orchestrator.results.scoring import Scoring
from orchestrator.stores.base import GENESIS, put_array
from orchestrator.wiring import building, forecast, hosting, machine
from orchestrator.wiring.conditions import conditions
from orchestrator.wiring.contest_folder import ContestFolder
from orchestrator.wiring.folders import RoundFolder
from orchestrator.wiring.forecast import Forecast
from orchestrator.wiring.hosting import Hosting, Place
from orchestrator.wiring.standings import View, fold, view

ROUND = "round-1"
"""The name of a round: a contest file describes one."""


@dataclass(frozen=True, slots=True)
class How:
    """How the operator wants a round played."""

    backend: str | None = None
    """None: `process`, or none at all on the engine `kubernetes`, which has pods in place of a backend."""
    slots: int | None = None
    allow_unisolated: bool = False
    engine: str = hosting.LOCAL
    cluster: hosting.OnCluster = field(default_factory=hosting.OnCluster)
    """For the engine `kubernetes`."""
    announce: Callable[[Forecast], None] = lambda _: None
    """Is told what replays will cost, before each round is played."""


@dataclass(frozen=True)
class Part:
    """One task of one round: who plays it, which round of a season it is, and what earlier rounds finished."""

    contest: Contest
    task: str
    admitted: Admitted
    round: str = ROUND
    phase: str = ""
    finalists: frozenset[str] = frozenset()
    earlier: tuple[Earlier, ...] = ()

    def cells(self, roster: Roster) -> tuple[Cell, ...]:
        """Returns what has to be played."""
        cells: tuple[Cell, ...] = self.contest.format.cells(roster, self.phase, self.finalists)
        return cells


@dataclass(frozen=True, slots=True)
class Reported:
    """A round's results and where they were written."""

    results: Results
    results_file: Path
    cells_file: Path
    report_file: Path


def play(contest: Contest, out: Path, how: How, watch: Watch) -> Reported:
    """Plays the one round of a contest file, or what is left of it, and writes its results.

    Raises:
        Rejected: the contest file or a submission cannot play.
        UsageError: `out` holds something else.
        Parked: submissions wait for another run; everybody else was played, and the results were written.
        InfrastructureFault: something that every job needs failed; run again to go on.
        Cancelled: the operator ended it; run again to go on.
    """
    folder = RoundFolder(out)
    with folder.created():  # before the backend, which works in it
        host = hosted(contest, out, how)
        with host.alone(folder) as place, folder.locked():
            host.backend.sweep()
            part = Part(contest, contest.only_task, admit(contest, building.identify(host.backend, folder.path)))
            try:
                play_part(part, folder, place, how, watch)
            except Parked:
                write(folder)
                raise
            return write(folder)


def preview(contest: Contest, out: Path, how: How) -> Outlook:
    """Returns what `play` would play now, without playing or writing anything. Raises like `play`."""
    with tempfile.TemporaryDirectory(prefix="sparring-preview-") as workspace:
        host = hosted(contest, Path(workspace), how)
        part = Part(contest, contest.only_task, admit(contest, building.foretell(host.backend)))
        return preview_part(part, RoundFolder(out), host, Path(workspace))


def preview_part(part: Part, folder: RoundFolder, host: Hosting, workspace: Path) -> Outlook:
    """Returns what would be played of one task of one round; `workspace` stands in for a round not yet begun."""
    begun = folder.exists
    lies = folder if begun else RoundFolder(workspace / part.task)
    lies.create()
    setting = _setting(part, lies, host.backend)
    record, head = read(lies.path) if begun else (Record(setting.blobs), GENESIS)
    if begun:
        _check_same(record, part, setting, folder.path)
    now = Earlier.of(part.round, head, record, setting.blobs)
    slots = host.places(setting.limits)
    return outlook(setting, part.cells(setting.roster), now, part.earlier, slots=slots)


def hosted(contest: Contest, workspace: Path, how: How) -> Hosting:
    """Returns where a contest is played, once it is seen to work.

    Raises:
        UsageError: there is no such engine or backend, or it was asked for the impossible, or for another's.
        InfrastructureFault: it does not work.
    """
    plugins.find("engines", how.engine)
    _refuse_unheeded(how)
    if how.engine == hosting.KUBERNETES:
        cluster = hosting.Cluster(contest, how.cluster, how.slots)
        cluster.backend.check(contest.file.runtime)
        return cluster
    here = hosting.Here(ready(contest, workspace, how), how.slots)
    here.places(contest.file.sandbox_policy().limits)
    return here


def _refuse_unheeded(how: How) -> None:
    """Raises UsageError for options that this engine would not heed: whoever gives one counts on it."""
    if how.engine == hosting.KUBERNETES:
        given: dict[str, object] = {"--backend": how.backend is not None, "--allow-unisolated": how.allow_unisolated}
        why = "plays every submission in a pod"
    else:
        on = how.cluster
        given = {"--kubeconfig": on.kubeconfig, "--context": on.context, "--unproved-network": on.override}
        why = "plays on this machine"
    if unheeded := [option for option, value in given.items() if value]:
        raise UsageError(
            f"{' and '.join(unheeded)} cannot be heeded: --engine {how.engine} {why}; "
            "leave that away, or give another --engine"
        )


def ready(contest: Contest, workspace: Path, how: How) -> Backend:
    """Returns the backend, once it is seen to work with the contest's runtime. Raises BackendUnavailable."""
    backend = machine.backend(how.backend or "process", workspace, allow_unisolated=how.allow_unisolated)
    backend.check(contest.file.runtime)
    return backend


def play_part(part: Part, folder: RoundFolder, place: Place, how: How, watch: Watch) -> None:
    """Plays one task of one round into a locked folder, or what is left of it, at a place that is its own."""
    setting = _setting(part, folder, place.backend)
    engine = place.engine(setting)
    ledger = folder.ledger()
    try:
        record = Record(setting.blobs, (entry.event for entry in ledger.read()))
        dispatcher = Dispatcher(setting, ledger, record, _now, watch)
        if record.round.opened is None:
            dispatcher.open(part.contest.file.model_dump(mode="json"), part.phase)
        else:
            _check_same(record, part, setting, folder.path)
            for whole in (setting.samples.pixels, setting.samples.labels):
                put_array(setting.blobs, whole)  # where a power cut damaged them
        dispatcher.mend()
        dispatcher.grow()
        cells = part.cells(setting.roster)
        how.announce(forecast.replays(setting, cells))
        dispatcher.run(engine, cells, part.earlier, place.noted)
    finally:
        ledger.close()
        with suppress(InfrastructureFault):  # what could not be ended while the engine was away; else the next sweep
            place.backend.sweep(ended=setting.run)


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
    return scoring(record, out).results(head)


def write(folder: RoundFolder) -> Reported:
    """Folds the ledger and writes cells.csv and report/index.html, and results.json last: where it is, all are."""
    with folder.writing():
        return write_held(folder)


def write_held(folder: RoundFolder) -> Reported:
    """Does what `write` does, for a caller that holds the round's contest already."""
    record, head = read(folder.path)
    judged = scoring(record, folder.path)
    document = judged.results(head)
    cells = folder.write("cells.csv", cells_csv.render(document))
    page = folder.write("report/index.html", report.render(document, gallery.choose(record, judged)))
    last = folder.write(folder.results.name, document.model_dump_json(indent=2) + "\n")
    return Reported(results=document, results_file=last, cells_file=cells, report_file=page)


def scoring(record: Record, out: Path, rules: dict[str, Any] | None = None) -> Scoring:
    """Returns what can be said of a round, with what its contest says of the submissions.

    `rules` replace those that it was opened with, and those that its contest changed to since.
    """
    opened = record.round.opened
    if opened is None:
        raise UsageError(f"the round in {out} was never opened; run it again")
    kind = plugins.find("contests", opened.contest["format"])
    seen = View()
    if (above := RoundFolder(out).contest) is not None:
        season = _season(ContestFolder(above))
        seen = view(season, opened.task.name, first=opened.phase == kind.phases[0])
    judged = kind(kind.rules_type.model_validate(rules or seen.rules or opened.contest["rules"]))
    return Scoring(record, judged, seen.standings)


def _season(contest: ContestFolder) -> Season:
    ledger = contest.ledger()
    try:
        return fold(ledger.read())
    finally:
        ledger.close()


def _setting(part: Part, folder: RoundFolder, backend: Backend) -> Setting:
    contest = part.contest
    samples = contest.samples(part.task)
    return Setting(
        **conditions(contest.file, contest.format.rules),
        round=part.round,
        task=contest.task(samples, part.task),
        samples=samples,
        secret=folder.secret(),
        roster=part.admitted.roster,
        images=part.admitted.images,
        backend=backend,
        blobs=folder.blobs(),
    )


def _check_same(record: Record, part: Part, setting: Setting, out: Path) -> None:
    """Raises UsageError, naming what differs, when the folder holds the round of something else.

    In a season the roster may grow, and rules may change: they are judged again by `sparring rejudge`.
    """
    opened = record.round.opened
    if opened is None:
        return
    then = {s.id: s.digest for s in record.round.roster}
    mine = {s.id: s.digest for s in setting.roster}
    if part.phase:  # who came later or left is no difference
        both = then.keys() & mine.keys()
        then, mine = ({name: digests[name] for name in both} for digests in (then, mine))
    changes = {
        "the contest file": (
            _played_by(part.contest.file.model_dump(mode="json"), part),
            _played_by(opened.contest, part),
        ),
        f"the backend ({opened.backend} then, {setting.backend.name} now)": (setting.backend.name, opened.backend),
        "the pictures": (setting.task.digest, opened.task.digest),
        "the submissions": (mine, then),
        "the secret": (digest(setting.secret), opened.commitment),
    }
    changed = [name for name, (now, before) in changes.items() if now != before]
    if changed:
        raise UsageError(
            f"the round in {out} was opened differently: changed since then: {', '.join(changed)}; "
            "put it back to go on, or give a new folder as --out"
        )


_FOR_PEOPLE = frozenset({"opens", "closes", "friendly_pictures", "submissions", "title"})
"""Keys of a contest file that decide nothing of what is played in a season."""
_PLAYED_RULES = ("on_missing", "on_violation")
"""Rules that decide what is played, not only how it is judged."""


def played_differently(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Returns the rules that differ and decide what is played; both are complete, with every default."""
    return [f"rules.{name}" for name in _PLAYED_RULES if before[name] != now[name]]


def _played_by(file: dict[str, Any], part: Part) -> dict[str, Any]:
    """Returns what of a contest file decides what is played: not where pods run.

    In a season that is everything but times, entries, other tasks, and rules that only judge.
    """
    file = {key: value for key, value in file.items() if key != "cluster"}
    if not part.phase or file["format"] != part.contest.file.format:
        return file
    left = {key: value for key, value in file.items() if key not in _FOR_PEOPLE}
    rules = type(part.contest.format.rules).model_validate(file["rules"]).model_dump(mode="json")
    tasks = [task | {"sample": None} for task in file["tasks"] if task["name"] == part.task]
    return left | {"tasks": tasks, "rules": {key: rules[key] for key in _PLAYED_RULES}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
