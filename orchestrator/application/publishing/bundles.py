"""Publishes a contest's bundles for the organizers, and verifies bundles and receipts for anybody."""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import round_record
from orchestrator.bundles import receipts, verifier, writer
from orchestrator.bundles.layout import CONTEST, MANIFEST, SIGNATURE, BundleKind, BundleManifest, RoundPart
from orchestrator.bundles.prior_evidence import NO_EVIDENCE, PriorEvidence
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.verifier import VerificationReport
from orchestrator.bundles.writer import RoundSource
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_format import Format, SeasonState
from orchestrator.domain.ids import digest
from orchestrator.domain.season import Season
from orchestrator.domain.text import printable, shell_word
from orchestrator.errors import Rejected, StoreFault, UsageError
from orchestrator.ledger import season_fold
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import GENESIS, LedgerEntry

_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PublishedBundle:
    """A bundle that was written, verified and recorded in the ledger."""

    path: Path
    verification: VerificationReport


def publish_bundle(
    admin: ContestAdmin, out: Path, kind: BundleKind, *, pictures: bool = False, unfinished: bool = False
) -> PublishedBundle:
    """Writes a bundle of all complete rounds, verifies it as anybody would, and records it in the ledger.

    Args:
        admin: the contest.
        out: the bundle's folder, which is created.
        kind: a `sealed` bundle has no answers, no labels and no secrets; a `full` one has them.
        pictures: whether a full bundle has the pictures and the attacks' adversarial examples. It always has them if
            the format's numbers are computed from them.
        unfinished: whether to publish a full bundle although rounds are still to be played with the same labels.

    Raises:
        UsageError: nothing was played, a round is not complete, or `out` exists already.
        Rejected: the format has a reason why nothing may be published now.
        StoreFault: the record is damaged, or the key is not the contest's.
        NotGenuine: the written bundle failed its verification.
    """
    require_publishable(admin, kind, pictures=pictures, unfinished=unfinished)
    if pictures and kind != "full":
        raise UsageError("a sealed bundle holds no pictures; give --full with --pictures")
    pictures = pictures or (kind == "full" and admin.contest.format.judges_pictures)
    if out.exists():
        raise UsageError(f"{out} is there already; give a new folder")
    key = admin.signing_key()
    with _temporary_sibling(out) as folder:
        sources = [_round_source(admin, act) for act in admin.season.played_rounds.values()]
        writer.write_contest(folder, _ledger_entries(admin.folder))
        for source in sources:
            if kind == "full":
                writer.write_full_round(folder, source)
            else:
                writer.write_sealed_round(folder, source, resolve_rules, admin.season)
        if kind == "full":
            writer.write_blobs(folder, sources, admin.folder.blobs(), pictures=pictures)
        draft = BundleManifest(
            kind=kind,
            pictures=pictures,
            contest=admin.contest.file.contest,
            software=__version__,
            key=key.public_key.hex(),
            head=admin.head,
            rounds=[source.part for source in sources],
            files=[],
        )
        named = writer.write_signed_manifest(folder, draft, key)
        verified = verifier.verify_bundle(Bundle.load(folder, key.fingerprint), resolve_rules)
        admin.append_event(contest_events.BundlePublished(actor=admin.actor, bundle=kind, digest=named))
        folder.rename(out)
    return PublishedBundle(out, verified)


def verify_bundle_or_receipt(
    path: Path, key: str | None = None, sealed: Path | None = None, evidence: PriorEvidence = NO_EVIDENCE
) -> VerificationReport | receipts.VerifiedReceipt:
    """Verifies a bundle or a receipt; returns the report, or the genuine receipt. Reads nothing but the given paths.

    Args:
        path: a bundle's folder, or a receipt.
        key: the fingerprint of the organizers' key; without it, anybody may have signed.
        sealed: an earlier bundle, whose commitments a full one has to open.
        evidence: heads and receipts that the reader kept from before, which the bundle has to contain.

    Raises:
        NotGenuine: at the first check that fails.
        UsageError: `key` is no fingerprint, a head is no hash, or there is nothing at a path, or neither a bundle nor
            a receipt.
    """
    if key is not None and not _FINGERPRINT.fullmatch(key):
        raise UsageError(f"{printable(key, 80)!r} is no fingerprint: sha256: and 64 hexadecimal digits")
    for head in evidence.heads:
        if not _FINGERPRINT.fullmatch(head):
            raise UsageError(f"{printable(head, 80)!r} is no hash of an entry: sha256: and 64 hexadecimal digits")
    _require_paths(path, sealed, evidence.receipts)
    if path.is_file():
        if sealed is not None or evidence != NO_EVIDENCE:
            raise UsageError("a receipt is checked alone; leave --sealed, --head and --receipt out")
        return receipts.verify_receipt(path, key)
    bundle = Bundle.load(path, key)
    return verifier.verify_bundle(
        bundle, resolve_rules, None if sealed is None else Bundle.load(sealed, bundle.key), evidence
    )


def _require_paths(path: Path, sealed: Path | None, kept_receipts: Iterable[Path]) -> None:
    """Raises UsageError for a path with nothing there, or with something else than what is checked."""
    bundle_paths, receipt_paths = [each for each in (path, sealed) if each is not None], list(kept_receipts)
    for each in (*bundle_paths, *receipt_paths):
        if not each.exists():
            raise UsageError(f"there is no {each}; give a bundle's folder, or a receipt")
    for each in receipt_paths:
        if each.is_dir():
            raise UsageError(f"{each} is a folder; give a receipt's file")
    for each in bundle_paths:
        _require_bundle_or_file(each)


def _require_bundle_or_file(path: Path) -> None:
    """Raises UsageError for a folder with none of a bundle's own files, and for a zip: there is nothing to check."""
    if path.is_file():
        if zipfile.is_zipfile(path):
            raise UsageError(f"{path} is an archive; unpack it, and give the bundle's folder")
        return
    if any(os.path.lexists(path / name) for name in (MANIFEST, SIGNATURE, CONTEST)):
        return
    if ContestFolder(path).exists:
        command = f"sparring publish {shell_word(path)} --out BUNDLE"
        raise UsageError(f"{path} is the folder of a contest; `{command}` writes a bundle of it")
    remedy = "give the folder that `sparring publish` wrote, or a receipt"
    raise UsageError(f"{path} is no bundle: it has no {MANIFEST}; {remedy}")


def resolve_rules(season: Season, opened: events.RoundOpened) -> tuple[Format[Any], SeasonState]:
    """Returns the format with the rules in force for a round, and the season's state for its submissions."""
    found = season_fold.format_of_round(opened, season)
    return found, season_fold.season_state(found, season, opened)


def require_publishable(
    admin: ContestAdmin, kind: BundleKind, *, pictures: bool = False, unfinished: bool = False
) -> None:
    """Raises an error if a bundle may not be published, as far as that is known without writing it.

    Raises:
        UsageError: nothing was played, a round with the same labels is still to be played and `unfinished` is false, or
            the format has no such bundle.
        Rejected: the format has a reason why nothing may be published now.
    """
    if not admin.season.played_rounds:
        raise UsageError(f"no round of {admin.contest.file.contest} was played yet; there is nothing to publish")
    if kind == "full" and not unfinished:
        _require_finished(admin)
    rules = admin.contest.format
    if kind == "sealed" and rules.play_rules().keep_scores and not rules.withholds_outcomes:
        raise UsageError(
            f"the boards of {rules.name} follow from scores, which a sealed bundle cannot hold; give --full"
        )
    if problems := rules.publish_problems(admin.season, full=kind == "full", pictures=pictures):
        raise Rejected(f"contest {admin.contest.file.contest}", problems)


def _require_finished(admin: ContestAdmin) -> None:
    """Raises UsageError if a full bundle would show labels with which a round is still to be played."""
    for task in admin.contest.file.all_tasks:
        rounds = admin.contest.format.rounds(admin.season, task.name)
        last = [round_.name for round_ in rounds if round_.reveals_labels]
        if not any((name, task.name) in admin.season.played_rounds for name in last):
            reason = f"the {last[-1]} round of {task.name} was not played" if last else f"{task.name} is not over"
            raise UsageError(
                f"{reason}, and a full bundle holds its labels; publish a sealed one (`--sealed`), or say that you "
                "publish the labels all the same (`--unfinished`)"
            )


def _round_source(admin: ContestAdmin, act: contest_events.RoundPlayed) -> RoundSource:
    folder = admin.folder.round(act.round, act.task)
    folder.require()
    with closing(folder.ledger()) as ledger:
        entries = list(ledger.read())
    head = entries[-1].hash if entries else GENESIS
    record = RoundView(folder.blobs(), (entry.event for entry in entries))
    if head != act.head or not record.round.closed:
        raise UsageError(
            f"the {act.round} round of {act.task} is not as it was when it was last complete: "
            f"run `sparring round run {shell_word(admin.folder.path)} {act.round}` to go on"
        )
    opening = record.round.opening
    if not (folder.path / "secret").exists() or opening is None or digest(folder.secret()) != opening.commitment:
        raise StoreFault(f"{folder.path / 'secret'} is not the secret that the round committed to; restore it")
    results = round_record.score_round(record, folder.path).results(head)
    return RoundSource(RoundPart(round=act.round, task=act.task, head=head), entries, record, folder.secret(), results)


def _ledger_entries(folder: ContestFolder) -> list[LedgerEntry]:
    with closing(folder.ledger()) as ledger:
        return list(ledger.read())


@contextmanager
def _temporary_sibling(out: Path) -> Iterator[Path]:
    """Creates a folder beside `out`, and removes it on exit unless it was renamed. Raises UsageError and StoreFault."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{out} cannot be made: {error}; give another --out") from error
    try:
        yield folder
    except OSError as error:
        raise StoreFault(f"{out} cannot be written: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
