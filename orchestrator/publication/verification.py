"""A bundle, checked: signature, chains, commitments, and every number counted again. Nothing outside it is needed.

What is checked comes from anybody. The first thing that does not hold is raised as NotGenuine, with its place; a file
that is not the one that was signed is named even where something else shows first that it was changed. Digests of files
are computed last: then every byte was read as what the layout says it is, and none was hashed for nothing.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from orchestrator.errors import NotGenuine, UsageError
from orchestrator.publication import full_round, opening, promotions, sealed_round
from orchestrator.publication.held import NOTHING, Held
from orchestrator.publication.held import check as check_held
from orchestrator.publication.judging import Judge, Played, Seen, Told, believing_nothing, contest
from orchestrator.publication.layout import BLOB_INDEX, BLOBS, CONTEST, LOOKED_AT, RoundPart
from orchestrator.publication.pack import PackedBlobs
from orchestrator.publication.reading import Bundle
from orchestrator.record import Record


@dataclass
class Verified:
    """What was checked of a bundle that holds.

    `entries` are those of all ledgers, `withheld` those of which only the leaf is shown. `numbers` are in results
    files, all found again, but for what was measured where the bundle is sealed. `replays` were followed from the
    round's secret and judged again, `promotions` follow from the boards at their time, and `opened` are the
    commitments of a sealed bundle that this one opens. `held` says where each thing is that its reader held, and
    `backwards` counts the entries of the contest's ledger whose time is before that of an earlier one.
    """

    kind: str
    contest: str
    software: str
    key: str
    digest: str
    rounds: list[str] = field(default_factory=list)
    entries: int = 0
    withheld: int = 0
    pictures: int = 0
    cells: int = 0
    numbers: int = 0
    replays: int = 0
    promotions: int = 0
    opened: int = 0
    backwards: int = 0
    held: list[str] = field(default_factory=list)

    def add(self, name: str, seen: Seen) -> None:
        """Counts a round."""
        self.rounds.append(name)
        for what in Seen.__slots__:
            setattr(self, what, getattr(self, what) + getattr(seen, what))


def verify(bundle: Bundle, judge: Judge, sealed: Bundle | None = None, held: Held = NOTHING) -> Verified:
    """Returns what was checked.

    Args:
        bundle: what is checked.
        judge: which rules hold for a round, and what its season says of the submissions.
        sealed: an earlier bundle of the same contest, whose commitments this one has to open.
        held: what the reader kept from before, which has to be in it.

    Raises:
        NotGenuine: at the first thing that does not hold.
        UsageError: only a full bundle opens a sealed one.
    """
    if sealed is not None and (bundle.manifest.kind, sealed.manifest.kind) != ("full", "sealed"):
        raise UsageError("only a full bundle opens a sealed one: give the full one, and the other with --sealed")
    try:
        verified = _verify(bundle, judge, sealed)
    except NotGenuine as found:
        altered = bundle.altered(LOOKED_AT)
        raise (found if altered is None else _both(altered, found)) from None
    if (altered := bundle.altered()) is not None:
        raise altered
    verified.held = check_held(bundle, held)
    return verified


def _both(altered: NotGenuine, found: NotGenuine) -> NotGenuine:
    """Returns the error of a file that was altered, as exactly placed as what does not hold with it."""
    [file], [inside] = altered.problems, found.problems
    if inside.place.startswith(file.place):
        return NotGenuine(inside.place, f"{inside.what}; {file.place} is not the file that was signed")
    return NotGenuine(file.place, f"{file.what}; with it, this does not hold: {inside.place} {inside.what}")


def _verify(bundle: Bundle, judge: Judge, sealed: Bundle | None) -> Verified:
    manifest = bundle.manifest
    verified = Verified(manifest.kind, manifest.contest, manifest.software, bundle.key, bundle.digest)
    told = contest(bundle)
    verified.entries = len(told.links)
    verified.withheld = sum(link.event is None for link in told.links)
    verified.backwards = _backwards([link.time for link in told.links if link.time])
    if manifest.kind == "sealed":
        _sealed(bundle, told, judge, verified)
        return verified
    with bundle.open(BLOBS) as packed, bundle.open(BLOB_INDEX) as index:
        blobs = PackedBlobs(packed, bundle.size(BLOBS), index)
        played = _full(bundle, blobs, told, judge, verified)
        if sealed is not None:
            verified.opened = _opened(sealed, played, told, blobs, judge)
    return verified


def _backwards(times: list[str]) -> int:
    """Returns how many times are before one that stands before them; withheld entries have none."""
    return sum(time < latest for time, latest in zip(times[1:], accumulate(times, max), strict=False))


def _sealed(bundle: Bundle, told: Told, judge: Judge, verified: Verified) -> None:
    rounds: dict[tuple[str, str], promotions.AsOf] = {}
    for part in bundle.manifest.rounds:
        with believing_nothing(part.folder):
            record, seen = sealed_round.check(bundle, part, told.season, judge)
        verified.add(part.folder, seen)
        rounds[part.round, part.task] = partial(_last, part, record)
    with believing_nothing(CONTEST):
        verified.promotions = promotions.check(told, rounds, judge)


def _last(part: RoundPart, record: Record, head: str) -> Record | None:
    """Returns the record of a sealed round, of which only the last state is known."""
    return record if head == part.head else None


def _full(
    bundle: Bundle, blobs: PackedBlobs, told: Told, judge: Judge, verified: Verified
) -> dict[tuple[str, str], Played]:
    played: dict[tuple[str, str], Played] = {}
    for part in bundle.manifest.rounds:
        played[part.round, part.task], seen = full_round.check(bundle, part, told.season, judge, blobs, played)
        verified.add(part.folder, seen)
    full_round.check_blobs(blobs, played.values(), pictures=bundle.manifest.pictures)
    with believing_nothing(CONTEST):
        rounds = {key: partial(full_round.as_of, blobs, each) for key, each in played.items()}
        verified.promotions = promotions.check(told, rounds, judge)
    return played


def _opened(sealed: Bundle, played: dict[tuple[str, str], Played], told: Told, blobs: PackedBlobs, judge: Judge) -> int:
    """Returns how many commitments of a sealed bundle are opened, once it holds by itself."""
    try:
        verify(sealed, judge)
    except NotGenuine as found:
        [inside] = found.problems
        raise NotGenuine(f"sealed {inside.place}", inside.what) from None
    with believing_nothing("the sealed bundle"):
        return opening.check(sealed, played, told, blobs, judge)
