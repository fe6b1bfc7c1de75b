"""Checks that a full bundle opens a sealed bundle: the same contest, the same answers, the same counts."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from orchestrator import redaction
from orchestrator.bundles import chain, comparison, sealed_lists
from orchestrator.bundles.full_round_check import full_round_view
from orchestrator.bundles.layout import CELLS, CONTEST, LEDGER, PICTURES, RESULTS, ROUND, RoundPart
from orchestrator.bundles.packed_blobs import PackedBlobs
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.round_checks import (
    ContestState,
    RulesResolver,
    VerifiedRound,
    read_contest,
    resolve_checked_rules,
)
from orchestrator.bundles.sealed_round_check import read_ledger, read_stated_results
from orchestrator.domain import contest_events
from orchestrator.errors import NotGenuine
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.round_scoring import RoundScoring


def check_opens_sealed(
    sealed_bundle: Bundle,
    played: Mapping[tuple[str, str], VerifiedRound],
    contest_state: ContestState,
    blobs: PackedBlobs,
    resolve_rules: RulesResolver,
) -> int:
    """Returns how many commitments were opened. Raises NotGenuine, naming a place in the sealed bundle.

    Args:
        sealed_bundle: a sealed bundle that was verified by itself.
        played: the rounds of the full bundle.
        contest_state: the full bundle's contest ledger.
        blobs: the full bundle's arrays.
        resolve_rules: returns the format with the rules at the time of the sealed bundle.
    """
    sealed_contest = read_contest(sealed_bundle)
    _check_prefix(sealed_contest.entries, contest_state.entries, f"sealed {CONTEST}")
    opened_count = 0
    for part in sealed_bundle.manifest.rounds:
        round_ = played.get((part.round, part.task))
        if round_ is None:
            raise NotGenuine(f"sealed {part.folder}", "is not in the full bundle")
        withheld = read_ledger(sealed_bundle, part)
        _check_prefix(withheld, round_.entries, f"sealed {part.folder}/{LEDGER}")
        record = full_round_view(blobs, round_.events[: len(withheld)], pictures=False)
        if record.round.opening is not None:
            contest_format, standings = resolve_checked_rules(
                resolve_rules, sealed_contest.season, record.round.opening
            )
            withholds = contest_format.withholds_outcomes
            opened_count += _check_round(sealed_bundle, part, record, round_.secret, withholds_outcomes=withholds)
            stated = read_stated_results(sealed_bundle, part)
            counted = RoundScoring(record, contest_format, standings).results(part.head)
            place = f"sealed {part.folder}/{RESULTS}"
            measured = sealed_lists.rounded_measurements(counted, withholds_outcomes=withholds)
            comparison.check_equal(f"{place} submissions", sealed_lists.measurements_in(stated), measured)
            counted = counted.model_copy(update={"queries": redaction.redact_queries(counted.queries)})
            asked = [document.model_dump(mode="json")["queries"] for document in (stated, counted)]
            comparison.check_equal(f"{place} queries", *asked)
    published = (event.digest for event in contest_state.events if isinstance(event, contest_events.BundlePublished))
    if sealed_bundle.digest not in published:
        raise NotGenuine("sealed manifest.json", "is not on record as published in the full bundle's contest ledger")
    return opened_count


def _check_prefix(sealed: Sequence[chain.ChainEntry], full: Sequence[chain.ChainEntry], place: str) -> None:
    """Raises NotGenuine if a sealed bundle's ledger is not the beginning of the full bundle's."""
    for entry, same in zip_longest(sealed, full[: len(sealed)]):
        if same is None or (same.leaf, same.hash) != (entry.leaf, entry.hash):
            raise NotGenuine(f"{place} entry {entry.seq}", "is not the entry of the full bundle")
        if entry.public and same.public != entry.public:
            raise NotGenuine(f"{place} entry {entry.seq}", "says something else of itself than in the full bundle")


def _check_round(closed: Bundle, part: RoundPart, record: RoundView, secret: bytes, *, withholds_outcomes: bool) -> int:
    """Returns how many commitments of a round open to the labels and answers of the full bundle."""
    lists = sealed_lists.sealed_round_lists(record, secret, withholds_outcomes=withholds_outcomes)
    for name in (PICTURES, CELLS):
        with closed.open_file(f"{part.folder}/{name}") as file:
            comparison.check_lines(file, f"sealed {part.folder}/{name}", lists[name])
    stated = closed.read_document(f"{part.folder}/{ROUND}")
    comparison.check_equal(f"sealed {part.folder}/{ROUND}", stated, lists[ROUND])
    return len(lists[PICTURES])
