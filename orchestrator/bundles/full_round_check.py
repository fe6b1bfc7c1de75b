"""Checks one round of a full bundle."""

from collections.abc import Iterable, Mapping

from orchestrator import redaction
from orchestrator.bundles import array_checks, chain, comparison, revealed_lists
from orchestrator.bundles.bundle_records import FullRoundView
from orchestrator.bundles.layout import BLOB_INDEX, CELLS, LEDGER, RESULTS, SECRET, RoundPart
from orchestrator.bundles.packed_blobs import PackedBlobs
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.replay_check import ReplayCheck
from orchestrator.bundles.round_checks import (
    CheckCounts,
    RulesResolver,
    VerifiedRound,
    check_end,
    check_opened,
    check_roster,
    resolve_checked_rules,
    untrusted,
)
from orchestrator.domain import events
from orchestrator.domain.season import Season
from orchestrator.errors import NotGenuine
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs
from orchestrator.scoring.round_scoring import RoundScoring

SECRET_DIGITS = 64


def full_round_view(blobs: Blobs, past: Iterable[events.Event], *, pictures: bool) -> RoundView:
    """Returns the record of a full round, with its pictures if the bundle has them."""
    return RoundView(blobs, past) if pictures else FullRoundView(blobs, past)


def check_full_round(
    bundle: Bundle,
    part: RoundPart,
    season: Season,
    resolve_rules: RulesResolver,
    blobs: PackedBlobs,
    before: Mapping[tuple[str, str], VerifiedRound],
) -> tuple[VerifiedRound, CheckCounts]:
    """Checks a round, and returns it with the counts of what was checked; `before` are the earlier rounds.

    Raises:
        NotGenuine: at the first failed check.
    """
    folder, pictures = part.folder, bundle.manifest.pictures
    verified = VerifiedRound(part, _read_ledger(bundle, part), _read_secret(bundle, f"{folder}/{SECRET}"))
    with untrusted(folder):
        record = full_round_view(blobs, verified.events, pictures=pictures)
        first = record.round.opening
        if first is None:
            raise NotGenuine(f"{folder}/{LEDGER}", "opens no round")
        file = check_opened(first, part, f"{folder}/{LEDGER} entry 1")
        check_roster(record.round.roster, season, file, f"{folder}/{LEDGER}")
        array_checks.check_secret(record, verified.secret, f"{folder}/{SECRET}")
        contest_format, standings = resolve_checked_rules(resolve_rules, season, first)
        array_checks.check_arrays(record, folder, contest_format.play_rules())
        if pictures:
            array_checks.check_pictures(record, folder)
            array_checks.check_transcripts(record, folder)
        lists = revealed_lists.full_round_lists(record, verified.secret)
        for name, values in lists.items():
            with bundle.open_file(f"{folder}/{name}") as stream:
                comparison.check_lines(stream, f"{folder}/{name}", values)
        replays = ReplayCheck(verified, file, before, pictures=pictures).check(
            full_round_view(blobs, (), pictures=pictures)
        )
        results = RoundScoring(record, contest_format, standings).results(part.head).model_dump(mode="json")
    comparison.check_equal(f"{folder}/{RESULTS}", bundle.read_document(f"{folder}/{RESULTS}"), results)
    count, cells = len(record.samples), len(lists[CELLS])
    return verified, CheckCounts(len(verified.entries), 0, count, cells, comparison.count_numbers(results), replays)


def view_at_head(blobs: Blobs, played: VerifiedRound, head: str) -> RoundView | None:
    """Returns a round's record as it was when its ledger ended with this hash, None where it never did."""
    hashes = [entry.hash for entry in played.entries]
    return FullRoundView(blobs, played.events[: hashes.index(head) + 1]) if head in hashes else None


def check_blobs(blobs: PackedBlobs, rounds: Iterable[VerifiedRound], *, pictures: bool) -> None:
    """Raises NotGenuine where a blob is not what its digest says, or belongs to no round."""
    digests: set[str] = set()
    for round_ in rounds:
        digests |= revealed_lists.blob_digests(round_.events, pictures=pictures)
    for digest in blobs:
        if digest not in digests:
            raise NotGenuine(BLOB_INDEX, f"lists {digest}, which no ledger names")
        blobs.get(digest)


def _read_ledger(bundle: Bundle, part: RoundPart) -> list[chain.ChainEntry]:
    name = f"{part.folder}/{LEDGER}"
    with bundle.open_file(name) as file:
        entries = list(chain.read_chain(file, name, redaction.redact_full_event))
    for entry in entries:
        if entry.event is None:
            raise NotGenuine(f"{name} entry {entry.seq}", "is withheld; a full bundle shows them all")
    check_end(entries, part, name)
    return entries


def _read_secret(bundle: Bundle, name: str) -> bytes:
    text = bundle.read_text(name, SECRET_DIGITS + 1)
    if len(text) != SECRET_DIGITS + 1 or not set(text[:-1]) <= set("0123456789abcdef") or text[-1] != "\n":
        raise NotGenuine(name, f"is not {SECRET_DIGITS} hexadecimal digits and a line feed")
    return bytes.fromhex(text)
