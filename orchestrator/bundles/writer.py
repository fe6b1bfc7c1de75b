"""Writes a bundle: the files with what may be published of a contest, and a signed manifest."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import redaction
from orchestrator.bundles import chain, encoding, packed_blobs, revealed_lists, sealed_lists
from orchestrator.bundles.layout import (
    CELLS,
    CONTEST,
    LEDGER,
    MANIFEST,
    PICTURES,
    RESULTS,
    ROUND,
    SECRET,
    SIGNATURE,
    BundleManifest,
    FilePart,
    RoundPart,
    expected_files,
)
from orchestrator.bundles.reader import encode_signature
from orchestrator.bundles.round_checks import RulesResolver
from orchestrator.domain import events
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.round import Round
from orchestrator.domain.season import Season
from orchestrator.errors import StoreFault
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs, LedgerEntry
from orchestrator.scoring.results_file import Results
from orchestrator.scoring.round_scoring import RoundScoring
from orchestrator.signatures import SigningKey


@dataclass(frozen=True)
class RoundSource:
    """One round to publish: its ledger, its record with the arrays, its secret and its results."""

    part: RoundPart
    entries: Sequence[LedgerEntry]
    record: RoundView
    secret: bytes
    results: Results


def write_contest(folder: Path, entries: Iterable[LedgerEntry]) -> None:
    """Writes the public form of a contest's ledger."""
    _write_file(folder / CONTEST, chain.encode_ledger(entries, redaction.redact_contest_event))


def write_sealed_round(folder: Path, source: RoundSource, resolve_rules: RulesResolver, season: Season) -> None:
    """Writes a sealed round. Its results are computed from the written files, so that every reader gets the same."""
    if source.record.round.opening is None:
        raise ValueError("no round was opened")
    contest_format, standings = resolve_rules(season, source.record.round.opening)
    at = folder / source.part.folder
    withholds = contest_format.withholds_outcomes
    values = sealed_lists.sealed_round_lists(source.record, source.secret, withholds_outcomes=withholds)
    _write_file(at / LEDGER, chain.encode_ledger(source.entries, redaction.redact_sealed_event))
    for name, value in values.items():
        _write_file(at / name, encoding.encode(value) if name == ROUND else encoding.encode_lines(value))
    sealed_round = sealed_lists.SealedRound.model_validate(values[ROUND])
    disclosed_events = [entry.event for entry in source.entries if redaction.redact_sealed_event(entry.event) is None]
    calls = {Cell(line["defence"], line["attack"]): line["calls"] for line in values[CELLS]}
    record = sealed_lists.sealed_round_view(sealed_round, disclosed_events, calls, len(values[PICTURES]))
    counted = RoundScoring(record, contest_format, standings).results(source.part.head)
    counted = counted.model_copy(update={"queries": redaction.redact_queries(source.results.queries)})
    measured = sealed_lists.rounded_measurements(source.results, withholds_outcomes=withholds)
    write_results(folder, source.part, sealed_lists.with_measurements(counted, measured))


def write_results(folder: Path, part: RoundPart, results: Results) -> None:
    """Writes a round's results."""
    _write_file(folder / part.folder / RESULTS, encoding.encode(results.model_dump(mode="json")))


def write_full_round(folder: Path, source: RoundSource) -> None:
    """Writes a full round, with its results."""
    at = folder / source.part.folder
    _write_file(at / LEDGER, chain.encode_ledger(source.entries, redaction.redact_full_event))
    _write_file(at / SECRET, (source.secret.hex() + "\n").encode("ascii"))
    for name, values in revealed_lists.full_round_lists(source.record, source.secret).items():
        _write_file(at / name, encoding.encode_lines(values))
    write_results(folder, source.part, source.results)


def write_blobs(folder: Path, sources: Iterable[RoundSource], blobs: Blobs, *, pictures: bool) -> None:
    """Writes the arrays of full rounds. Arrays of invalidated steps are only written if they can still be read.

    Raises:
        StoreFault: an array cannot be read on which a result depends, or a judgement that was later invalidated.
    """
    needed: set[str] = set()
    every: set[str] = set()
    for source in sources:
        round_ = source.record.round
        standing = [step for steps in round_.steps.values() for step in steps.values()]
        needed |= revealed_lists.blob_digests(
            [*standing, *([round_.opening] if round_.opening else [])], pictures=pictures
        )
        every |= revealed_lists.blob_digests((entry.event for entry in source.entries), pictures=pictures)
        _require_replay_blobs(source, blobs)
    packed_blobs.write_blobs(
        blobs, needed | {taken_back for taken_back in every - needed if _is_readable(blobs, taken_back)}, folder
    )


def _require_replay_blobs(source: RoundSource, blobs: Blobs) -> None:
    """Raises StoreFault if an array is missing by which a replay was judged: `verify` repeats each judgement."""
    round_ = Round()
    for event in (entry.event for entry in source.entries):
        round_.apply(event)
        if not isinstance(event, events.ReplayJudged):
            continue
        played_jobs = (end.job for end in round_.finished_jobs_of(event.submission) if end.stage is Stage.CLASSIFY)
        steps = [step for job in (event.job, *played_jobs) for step in round_.steps.get(job, {}).values()]
        for name in sorted(revealed_lists.blob_digests(steps, pictures=False)):
            if not _is_readable(blobs, name):
                raise StoreFault(
                    f"blob {name} is gone, by which {event.submission} was judged before it was played again: a full "
                    "bundle shows that too; put it back from a copy of the folder, or publish --sealed"
                )


def _is_readable(blobs: Blobs, name: str) -> bool:
    try:
        blobs.get(name)
    except StoreFault:
        return False
    return True


def write_signed_manifest(folder: Path, draft: BundleManifest, key: SigningKey) -> str:
    """Writes the manifest with the list of the folder's files, and its signature.

    Returns the manifest's digest.
    """
    files = []
    for name in expected_files(draft.kind, draft.rounds):
        with (folder / name).open("rb") as file:
            files.append(
                FilePart(name=name, sha256=packed_blobs.file_digest(file), size=os.fstat(file.fileno()).st_size)
            )
    manifest = draft.model_copy(update={"files": files, "key": key.public_key.hex()})
    data = encoding.encode(manifest.model_dump(mode="json"))
    _write_file(folder / MANIFEST, data)
    _write_file(folder / SIGNATURE, encode_signature(data, key))
    return digest(data)


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
