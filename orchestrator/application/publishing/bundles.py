"""A contest's bundles and receipts: published by the organizers, checked by anybody."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import round_record
from orchestrator.bundles import receipts, verifier, writer
from orchestrator.bundles.layout import BundleKind, BundleManifest, RoundPart
from orchestrator.bundles.prior_evidence import NO_EVIDENCE, PriorEvidence
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.verifier import VerificationReport
from orchestrator.bundles.writer import RoundSource
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_format import Format, SeasonState
from orchestrator.domain.ids import digest
from orchestrator.domain.season import Season
from orchestrator.domain.text import printable
from orchestrator.errors import Rejected, StoreFault, UsageError
from orchestrator.ledger import season_fold
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import GENESIS, LedgerEntry

_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PublishedBundle:
    """A bundle that was written, checked and noted."""

    path: Path
    verification: VerificationReport


def publish_bundle(
    admin: ContestAdmin, out: Path, kind: BundleKind, *, pictures: bool = False, unfinished: bool = False
) -> PublishedBundle:
    """Writes a bundle of every round that was played, checks it as anybody would, and notes it in the ledger.

    Args:
        admin: the contest.
        out: the bundle's folder; it is made.
        kind: `sealed` shows no answer, no label, no secret; `full` shows them.
        pictures: whether a full bundle holds the pictures, and what the attacks made of them. It always does where the
            format's numbers follow from them.
        unfinished: whether to publish in full although rounds are still to be played with the same labels.

    Raises:
        UsageError: nothing was played, a round is not finished, or there is something at `out`.
        Rejected: the format has a reason why nothing may be published now.
        StoreFault: the record is damaged, or the key is not the contest's.
        NotGenuine: what was written does not hold.
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
    path: Path, key: str | None = None, sealed: Path | None = None, held: PriorEvidence = NO_EVIDENCE
) -> VerificationReport | receipts.VerifiedReceipt:
    """Returns what was checked of a bundle, or a receipt that is genuine. Nothing but the path is read.

    Args:
        path: a bundle's folder, or a receipt.
        key: the fingerprint of the organizers' key; without it anybody may have signed.
        sealed: an earlier bundle, whose commitments a full one has to open.
        held: what the reader kept from before, which a bundle has to have.

    Raises:
        NotGenuine: at the first thing that does not hold.
        UsageError: `key` is no fingerprint, a head no hash, or there is nothing at the path.
    """
    if key is not None and not _FINGERPRINT.fullmatch(key):
        raise UsageError(f"{printable(key, 80)!r} is no fingerprint: sha256: and 64 hexadecimal digits")
    for head in held.heads:
        if not _FINGERPRINT.fullmatch(head):
            raise UsageError(f"{printable(head, 80)!r} is no hash of an entry: sha256: and 64 hexadecimal digits")
    for each in (path, sealed, *held.receipts):
        if each is not None and not each.exists():
            raise UsageError(f"there is no {each}; give a bundle's folder, or a receipt")
    if path.is_file():
        if sealed is not None or held != NO_EVIDENCE:
            raise UsageError("a receipt is checked alone; leave --sealed, --head and --receipt out")
        return receipts.verify_receipt(path, key)
    bundle = Bundle.load(path, key)
    return verifier.verify_bundle(
        bundle, resolve_rules, None if sealed is None else Bundle.load(sealed, bundle.key), held
    )


def resolve_rules(season: Season, opened: events.RoundOpened) -> tuple[Format[Any], SeasonState]:
    """Returns the format with the rules that hold for a round, and what the season says of its submissions."""
    found = season_fold.format_of_round(opened, season)
    return found, season_fold.season_state(found, season, opened)


def require_publishable(
    admin: ContestAdmin, kind: BundleKind, *, pictures: bool = False, unfinished: bool = False
) -> None:
    """Raises what keeps a bundle from being published, as far as nothing has to be written to know it.

    Raises:
        UsageError: nothing was played, a round with the same labels is to be played and `unfinished` was not said, or
            this format has no such bundle.
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
    """Raises UsageError while a round is to be played whose labels a full bundle would show."""
    for task in admin.contest.file.all_tasks:
        rounds = admin.contest.format.rounds(admin.season, task.name)
        last = [round_.name for round_ in rounds if round_.reveals_labels]
        if not any((name, task.name) in admin.season.played_rounds for name in last):
            reason = f"the {last[-1]} round of {task.name} was not played" if last else f"{task.name} is not over"
            raise UsageError(f"{reason}, and a full bundle holds its labels: publish --sealed, or say --unfinished")


def _round_source(admin: ContestAdmin, act: contest_events.RoundPlayed) -> RoundSource:
    folder = admin.folder.round(act.round, act.task)
    folder.require()
    ledger = folder.ledger()
    try:
        entries = list(ledger.read())
    finally:
        ledger.close()
    head = entries[-1].hash if entries else GENESIS
    record = RoundView(folder.blobs(), (entry.event for entry in entries))
    if head != act.head or not record.round.closed:
        raise UsageError(
            f"the {act.round} round of {act.task} is not as it was when it was last complete: "
            f"run `sparring round run {admin.folder.path} {act.round}` to go on"
        )
    opening = record.round.opening
    if not (folder.path / "secret").exists() or opening is None or digest(folder.secret()) != opening.commitment:
        raise StoreFault(f"{folder.path / 'secret'} is not the secret that the round committed to; restore it")
    results = round_record.score_round(record, folder.path).results(head)
    return RoundSource(RoundPart(round=act.round, task=act.task, head=head), entries, record, folder.secret(), results)


def _ledger_entries(folder: ContestFolder) -> list[LedgerEntry]:
    ledger = folder.ledger()
    try:
        return list(ledger.read())
    finally:
        ledger.close()


@contextmanager
def _temporary_sibling(out: Path) -> Iterator[Path]:
    """Gives a new folder beside `out`, removed again unless it was renamed. Raises UsageError where it cannot be."""
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
