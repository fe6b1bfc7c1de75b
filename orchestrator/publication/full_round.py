"""Checking one round of a full bundle."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from orchestrator.domain import events
from orchestrator.domain.season import Season
from orchestrator.domain.tasks import Budget, Norm
from orchestrator.errors import NotGenuine
from orchestrator.publication import chain, comparison, disclosure, earlier, evidence, opened
from orchestrator.publication.judging import (
    Judge,
    Played,
    Seen,
    believing_nothing,
    check_end,
    check_opened,
    check_roster,
    judged,
)
from orchestrator.publication.layout import BLOB_INDEX, CELLS, LEDGER, RESULTS, REVEALED, RoundPart
from orchestrator.publication.pack import PackedBlobs
from orchestrator.publication.reading import Bundle
from orchestrator.publication.records import OpenRecord
from orchestrator.publication.replays import Replays
from orchestrator.record import Record
from orchestrator.results.scoring import Scoring
from orchestrator.stores.base import Blobs

SECRET_DIGITS = 64


def record_of(blobs: Blobs, past: Iterable[events.Event], *, pictures: bool) -> Record:
    """Returns the record of a full round, with its pictures where the bundle has them."""
    return Record(blobs, past) if pictures else OpenRecord(blobs, past)


def check(
    bundle: Bundle,
    part: RoundPart,
    season: Season,
    judge: Judge,
    blobs: PackedBlobs,
    before: Mapping[tuple[str, str], Played],
) -> tuple[Played, Seen]:
    """Returns a round and how much was checked of it; `before` are the rounds before it.

    Raises:
        NotGenuine: at the first thing that does not hold.
    """
    folder, pictures = part.folder, bundle.manifest.pictures
    played = Played(part, _ledger(bundle, part), _secret(bundle, f"{folder}/{REVEALED}"))
    with believing_nothing(folder):
        record = record_of(blobs, played.events, pictures=pictures)
        first = record.round.opened
        if first is None:
            raise NotGenuine(f"{folder}/{LEDGER}", "opens no round")
        file = check_opened(first, part, f"{folder}/{LEDGER} entry 1")
        check_roster(record.round.roster, season, file, f"{folder}/{LEDGER}")
        evidence.check_secret(record, played.secret, f"{folder}/{REVEALED}")
        contest_format, standings = judged(judge, season, first)
        evidence.check(record, folder, contest_format.rules.on_missing, contest_format.rules.on_violation)
        if pictures:
            budget = Budget(Norm(first.task.norm), Fraction(first.task.epsilon))
            evidence.check_pictures(record, folder, budget)
        lists = opened.values(record, played.secret)
        for name, values in lists.items():
            with bundle.open(f"{folder}/{name}") as stream:
                comparison.check_lines(stream, f"{folder}/{name}", values)
        replays = Replays(played, file, before, pictures=pictures).check(record_of(blobs, (), pictures=pictures))
        results = Scoring(record, contest_format, standings).results(part.head).model_dump(mode="json")
    stated = bundle.document(f"{folder}/{RESULTS}")
    results = earlier.results_like(stated, results)
    comparison.check(f"{folder}/{RESULTS}", stated, results)
    count, cells = len(record.samples), len(lists[CELLS])
    return played, Seen(len(played.links), 0, count, cells, comparison.count(results), replays)


def as_of(blobs: Blobs, played: Played, head: str) -> Record | None:
    """Returns a round's record as it was when its ledger ended with this hash, None where it never did."""
    hashes = [link.hash for link in played.links]
    return OpenRecord(blobs, played.events[: hashes.index(head) + 1]) if head in hashes else None


def check_blobs(blobs: PackedBlobs, rounds: Iterable[Played], *, pictures: bool) -> None:
    """Raises NotGenuine where a blob is not what its digest says, or belongs to no round."""
    wanted: set[str] = set()
    for played in rounds:
        wanted |= opened.arrays(played.events, pictures=pictures)
    for digest in blobs:
        if digest not in wanted:
            raise NotGenuine(BLOB_INDEX, f"lists {digest}, which no ledger names")
        blobs.get(digest)


def _ledger(bundle: Bundle, part: RoundPart) -> list[chain.Link]:
    name = f"{part.folder}/{LEDGER}"
    with bundle.open(name) as file:
        links = list(chain.follow(file, name, disclosure.of_full_round))
    for link in links:
        if link.event is None:
            raise NotGenuine(f"{name} entry {link.seq}", "is withheld; a full bundle shows them all")
    check_end(links, part, name)
    return links


def _secret(bundle: Bundle, name: str) -> bytes:
    text = bundle.text(name, SECRET_DIGITS + 1)
    if len(text) != SECRET_DIGITS + 1 or not set(text[:-1]) <= set("0123456789abcdef") or text[-1] != "\n":
        raise NotGenuine(name, f"is not {SECRET_DIGITS} hexadecimal digits and a line feed")
    return bytes.fromhex(text)
