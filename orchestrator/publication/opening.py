"""Whether it opens what a sealed bundle closed: the same contest, the same answers, the same counts."""

from collections.abc import Mapping, Sequence

from orchestrator.domain import acts
from orchestrator.errors import NotGenuine
from orchestrator.publication import chain, comparison, earlier, sealed
from orchestrator.publication.full_round import record_of
from orchestrator.publication.judging import Judge, Played, Told, contest, judged
from orchestrator.publication.layout import CELLS, CONTEST, LEDGER, PICTURES, RESULTS, ROUND, RoundPart
from orchestrator.publication.pack import PackedBlobs
from orchestrator.publication.reading import Bundle
from orchestrator.publication.sealed_round import ledger, results
from orchestrator.record import Record
from orchestrator.results.scoring import Scoring


def check(
    closed: Bundle,
    played: Mapping[tuple[str, str], Played],
    told: Told,
    blobs: PackedBlobs,
    judge: Judge,
) -> int:
    """Returns how many commitments were opened. Raises NotGenuine, naming a place in the sealed bundle.

    Args:
        closed: a sealed bundle that holds by itself.
        played: the rounds of the full bundle.
        told: the full bundle's contest ledger.
        blobs: the full bundle's arrays.
        judge: which rules held when the sealed bundle was made.
    """
    shown = contest(closed)
    links = told.links
    _check_prefix(shown.links, links, f"sealed {CONTEST}")
    opened = 0
    for part in closed.manifest.rounds:
        round_ = played.get((part.round, part.task))
        if round_ is None:
            raise NotGenuine(f"sealed {part.folder}", "is not in the full bundle")
        withheld = ledger(closed, part)
        _check_prefix(withheld, round_.links, f"sealed {part.folder}/{LEDGER}")
        record = record_of(blobs, round_.events[: len(withheld)], pictures=False)
        opened += _check_round(closed, part, record, round_.secret)
        stated = sealed.measured_in(results(closed, part))
        if record.round.opened is not None:
            contest_format, standings = judged(judge, shown.season, record.round.opened)
            measured = sealed.roughly(Scoring(record, contest_format, standings).results(part.head))
            comparison.check(f"sealed {part.folder}/{RESULTS} submissions", stated, measured)
    published = (link.event.digest for link in links if isinstance(link.event, acts.BundlePublished))
    if closed.digest not in published:
        raise NotGenuine("sealed manifest.json", "is not on record as published in the full bundle's contest ledger")
    return opened


def _check_prefix(shown: Sequence[chain.Link], links: Sequence[chain.Link], place: str) -> None:
    """Raises NotGenuine where a sealed bundle's ledger is not the beginning of the full one's."""
    for number, link in enumerate(shown):
        if number >= len(links) or (links[number].leaf, links[number].hash) != (link.leaf, link.hash):
            raise NotGenuine(f"{place} entry {link.seq}", "is not the entry of the full bundle")
        if link.public and links[number].public != link.public:
            raise NotGenuine(f"{place} entry {link.seq}", "says something else of itself than in the full bundle")


def _check_round(closed: Bundle, part: RoundPart, record: Record, secret: bytes) -> int:
    """Returns how many commitments of a round open to the labels and answers of the full bundle."""
    found = sealed.values(record, secret)
    for name in (PICTURES, CELLS):
        with closed.open(f"{part.folder}/{name}") as file:
            comparison.check_lines(file, f"sealed {part.folder}/{name}", found[name])
    stated = closed.document(f"{part.folder}/{ROUND}")
    comparison.check(f"sealed {part.folder}/{ROUND}", stated, earlier.round_like(stated, found[ROUND]))
    return len(found[PICTURES])
