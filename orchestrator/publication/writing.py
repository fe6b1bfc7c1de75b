"""Writing a bundle: what may be shown of a contest, in files, with a manifest that is signed."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.domain import events
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.round import Round
from orchestrator.domain.season import Season
from orchestrator.errors import StoreFault
from orchestrator.publication import canon, chain, disclosure, opened, pack, sealed
from orchestrator.publication.judging import Judge
from orchestrator.publication.layout import (
    CELLS,
    CONTEST,
    LEDGER,
    MANIFEST,
    PICTURES,
    RESULTS,
    REVEALED,
    ROUND,
    SIGNATURE,
    BundleManifest,
    FilePart,
    RoundPart,
    expected,
)
from orchestrator.publication.reading import signature_file
from orchestrator.record import Record
from orchestrator.results.document import Results
from orchestrator.results.scoring import Scoring
from orchestrator.signatures import SigningKey
from orchestrator.stores.base import Blobs, Entry


@dataclass(frozen=True)
class Source:
    """One round to be published: its ledger, its record with the arrays, its secret, its results."""

    part: RoundPart
    entries: Sequence[Entry]
    record: Record
    secret: bytes
    results: Results


def write_contest(folder: Path, entries: Iterable[Entry]) -> None:
    """Writes what is shown of a contest's ledger."""
    _write(folder / CONTEST, chain.show(entries, disclosure.of_contest))


def write_sealed(folder: Path, source: Source, judge: Judge, season: Season) -> None:
    """Writes a sealed round; its results are counted from what is written, so that everybody gets the same."""
    at, values = folder / source.part.folder, sealed.values(source.record, source.secret)
    _write(at / LEDGER, chain.show(source.entries, disclosure.of_sealed_round))
    for name, value in values.items():
        _write(at / name, canon.encode(value) if name == ROUND else canon.encode_lines(value))
    told = sealed.SealedRound.model_validate(values[ROUND])
    shown = [entry.event for entry in source.entries if disclosure.of_sealed_round(entry.event) is None]
    calls = {Cell(line["defence"], line["attack"]): line["calls"] for line in values[CELLS]}
    record = sealed.record_of(told, shown, calls, len(values[PICTURES]))
    contest_format, standings = judge(season, told.opened)
    counted = Scoring(record, contest_format, standings).results(source.part.head)
    write_results(folder, source.part, sealed.with_measured(counted, sealed.roughly(source.results)))


def write_results(folder: Path, part: RoundPart, results: Results) -> None:
    """Writes a round's results."""
    _write(folder / part.folder / RESULTS, canon.encode(results.model_dump(mode="json")))


def write_full(folder: Path, source: Source) -> None:
    """Writes a full round, its results included."""
    at = folder / source.part.folder
    _write(at / LEDGER, chain.show(source.entries, disclosure.of_full_round))
    _write(at / REVEALED, (source.secret.hex() + "\n").encode("ascii"))
    for name, values in opened.values(source.record, source.secret).items():
        _write(at / name, canon.encode_lines(values))
    write_results(folder, source.part, source.results)


def write_blobs(folder: Path, sources: Iterable[Source], blobs: Blobs, *, pictures: bool) -> None:
    """Writes the arrays of full rounds; those of steps that were taken back only where they can still be read.

    Raises:
        StoreFault: an array cannot be read that a result follows from, or a judgement that was taken back since.
    """
    needed: set[str] = set()
    every: set[str] = set()
    for source in sources:
        round_ = source.record.round
        standing = [step for steps in round_.steps.values() for step in steps.values()]
        needed |= opened.arrays([*standing, *([round_.opened] if round_.opened else [])], pictures=pictures)
        every |= opened.arrays((entry.event for entry in source.entries), pictures=pictures)
        _check_judged(source, blobs)
    pack.write(blobs, needed | {taken_back for taken_back in every - needed if _readable(blobs, taken_back)}, folder)


def _check_judged(source: Source, blobs: Blobs) -> None:
    """Raises StoreFault where an array is gone that a replay was judged by: `verify` follows each when it was noted."""
    round_ = Round()
    for event in (entry.event for entry in source.entries):
        round_.apply(event)
        if not isinstance(event, events.ReplayJudged):
            continue
        played = (end.job for end in round_.finished_of(event.submission) if end.stage is Stage.CLASSIFY)
        steps = [step for job in (event.job, *played) for step in round_.steps.get(job, {}).values()]
        for name in sorted(opened.arrays(steps, pictures=False)):
            if not _readable(blobs, name):
                raise StoreFault(
                    f"blob {name} is gone, by which {event.submission} was judged before it was played again: a full "
                    "bundle shows that too; put it back from a copy of the folder, or publish --sealed"
                )


def _readable(blobs: Blobs, name: str) -> bool:
    try:
        blobs.get(name)
    except StoreFault:
        return False
    return True


def seal(folder: Path, draft: BundleManifest, key: SigningKey) -> str:
    """Writes the manifest of what lies in the folder, with its files listed, and its signature.

    Returns the manifest's digest.
    """
    files = []
    for name in expected(draft.kind, draft.rounds):
        with (folder / name).open("rb") as file:
            files.append(FilePart(name=name, sha256=pack.sha256_of(file), size=os.fstat(file.fileno()).st_size))
    manifest = draft.model_copy(update={"files": files, "key": key.public.hex()})
    data = canon.encode(manifest.model_dump(mode="json"))
    _write(folder / MANIFEST, data)
    _write(folder / SIGNATURE, signature_file(data, key))
    return digest(data)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
