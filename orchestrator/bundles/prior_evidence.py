"""Compares a bundle with prior evidence of its reader: hashes of ledger entries, and receipts.

A ledger whose end was cut, or in which an entry was changed or left out, has other hashes from there on. A bundle alone
cannot show that, so it is compared with what the organizers published or handed out earlier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import redaction
from orchestrator.bundles import chain, encoding, receipts
from orchestrator.bundles.layout import CONTEST, LEDGER
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine


@dataclass(frozen=True, slots=True)
class PriorEvidence:
    """Prior evidence: hashes of entries, as leaderboards, pages and receipts show them, and files of receipts."""

    heads: Sequence[str] = ()
    receipts: Sequence[Path] = ()


NO_EVIDENCE = PriorEvidence()


def find_evidence(bundle: Bundle, evidence: PriorEvidence) -> list[str]:
    """Returns the place in a verified bundle of each piece of evidence, such as `contest.jsonl entry 12`.

    Raises:
        NotGenuine: at the first that is not in the bundle, or that differs from it.
    """
    evidence_places = []
    places = _entry_places(bundle) if evidence.heads else {}
    for head in evidence.heads:
        if head not in places:
            problem = f"{head} is the hash of no entry of a ledger here: it was cut or changed, or is older than that"
            raise NotGenuine("head", problem)
        evidence_places.append(places[head])
    return evidence_places + [_receipt_place(bundle, path) for path in evidence.receipts]


def _entry_places(bundle: Bundle) -> dict[str, str]:
    names = [CONTEST, *(f"{part.folder}/{LEDGER}" for part in bundle.manifest.rounds)]
    places: dict[str, str] = {}
    for name in names:
        with bundle.open_file(name) as file:
            for place, value in encoding.decode_lines(file, name):
                places[value["hash"]] = place.replace(" line ", " entry ")
    return places


def _receipt_place(bundle: Bundle, path: Path) -> str:
    name = f"receipt {printable(path.name, 80)}"
    receipt = receipts.verify_receipt(path, bundle.key).receipt
    if receipt.contest != bundle.manifest.contest:
        raise NotGenuine(name, f"is of the contest {printable(receipt.contest, 80)}")
    place = f"{CONTEST} entry {receipt.entry}"
    with bundle.open_file(CONTEST) as file:
        entries = chain.read_chain(file, CONTEST, redaction.redact_contest_event)
        entry = next((each for each in entries if each.seq == receipt.entry), None)
    if entry is None or entry.hash != receipt.head:
        problem = f"is for {place}, which is another here or is not there: the ledger was cut or changed"
        raise NotGenuine(name, problem)
    if not isinstance(entry.event, contest_events.SubmissionReceived) or not _matches(receipt, entry.event, entry.time):
        raise NotGenuine(name, f"says something else than {place}")
    return place


def _matches(receipt: Receipt, event: contest_events.SubmissionReceived, time: str) -> bool:
    """Returns whether a receipt agrees with its entry in the ledger."""
    same_names = {"team", "task", "side", "digest", "attempt", "attempts_left", "warnings"}
    known = event.model_dump(mode="json", include=same_names) | {"submission": event.id, "received": time}
    return receipt.model_dump(mode="json", include=set(known)) == known
