"""A bundle, checked: signature, chains, commitments, and every number counted again. Nothing outside it is needed.

What is checked comes from anybody. The first thing that does not hold is raised as NotGenuine, with its place; a file
that is not the one that was signed is named even where something else shows first that it was changed. Digests of files
are computed last: then every byte was read as what the layout says it is, and none was hashed for nothing.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from orchestrator.bundles import cross_check, full_round_check, promotion_check, sealed_round_check
from orchestrator.bundles.layout import BLOB_INDEX, BLOBS, CONTEST, MAX_REHASHED_BYTES, RoundPart
from orchestrator.bundles.packed_blobs import PackedBlobs
from orchestrator.bundles.prior_evidence import NO_EVIDENCE, PriorEvidence
from orchestrator.bundles.prior_evidence import find_evidence as check_held
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.round_checks import (
    CheckCounts,
    ContestState,
    RulesResolver,
    VerifiedRound,
    read_contest,
    untrusted,
)
from orchestrator.errors import NotGenuine, UsageError
from orchestrator.ledger.read_model import RoundView


@dataclass
class VerificationReport:
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

    def add(self, name: str, seen: CheckCounts) -> None:
        """Counts a round."""
        self.rounds.append(name)
        for what in CheckCounts.__slots__:
            setattr(self, what, getattr(self, what) + getattr(seen, what))


def verify_bundle(
    bundle: Bundle, judge: RulesResolver, sealed: Bundle | None = None, held: PriorEvidence = NO_EVIDENCE
) -> VerificationReport:
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
        verified = _check_bundle(bundle, judge, sealed)
    except NotGenuine as found:
        altered = bundle.altered(MAX_REHASHED_BYTES)
        raise (found if altered is None else _combined_error(altered, found)) from None
    if (altered := bundle.altered()) is not None:
        raise altered
    verified.held = check_held(bundle, held)
    return verified


def _combined_error(altered: NotGenuine, found: NotGenuine) -> NotGenuine:
    """Returns the error of a file that was altered, as exactly placed as what does not hold with it."""
    [file], [inside] = altered.problems, found.problems
    if inside.place.startswith(file.place):
        return NotGenuine(inside.place, f"{inside.what}; {file.place} is not the file that was signed")
    return NotGenuine(file.place, f"{file.what}; with it, this does not hold: {inside.place} {inside.what}")


def _check_bundle(bundle: Bundle, judge: RulesResolver, sealed: Bundle | None) -> VerificationReport:
    manifest = bundle.manifest
    verified = VerificationReport(manifest.kind, manifest.contest, manifest.software, bundle.key, bundle.digest)
    told = read_contest(bundle)
    verified.entries = len(told.links)
    verified.withheld = sum(link.event is None for link in told.links)
    verified.backwards = _count_backwards([link.time for link in told.links if link.time])
    if manifest.kind == "sealed":
        _check_sealed(bundle, told, judge, verified)
        return verified
    with bundle.open(BLOBS) as packed, bundle.open(BLOB_INDEX) as index:
        blobs = PackedBlobs(packed, bundle.size(BLOBS), index)
        played = _check_full(bundle, blobs, told, judge, verified)
        if sealed is not None:
            verified.opened = _check_opens_sealed(sealed, played, told, blobs, judge)
    return verified


def _count_backwards(times: list[str]) -> int:
    """Returns how many times are before one that stands before them; withheld entries have none."""
    return sum(time < latest for time, latest in zip(times[1:], accumulate(times, max), strict=False))


def _check_sealed(bundle: Bundle, told: ContestState, judge: RulesResolver, verified: VerificationReport) -> None:
    rounds: dict[tuple[str, str], promotion_check.ViewAtHead] = {}
    for part in bundle.manifest.rounds:
        with untrusted(part.folder):
            record, seen = sealed_round_check.check_sealed_round(bundle, part, told.season, judge)
        verified.add(part.folder, seen)
        rounds[part.round, part.task] = partial(_view_if_last, part, record)
    with untrusted(CONTEST):
        verified.promotions = promotion_check.check_promotions(told, rounds, judge)


def _view_if_last(part: RoundPart, record: RoundView, head: str) -> RoundView | None:
    """Returns the record of a sealed round, of which only the last state is known."""
    return record if head == part.head else None


def _check_full(
    bundle: Bundle, blobs: PackedBlobs, told: ContestState, judge: RulesResolver, verified: VerificationReport
) -> dict[tuple[str, str], VerifiedRound]:
    played: dict[tuple[str, str], VerifiedRound] = {}
    for part in bundle.manifest.rounds:
        played[part.round, part.task], seen = full_round_check.check_full_round(
            bundle, part, told.season, judge, blobs, played
        )
        verified.add(part.folder, seen)
    full_round_check.check_blobs(blobs, played.values(), pictures=bundle.manifest.pictures)
    with untrusted(CONTEST):
        rounds = {key: partial(full_round_check.view_at_head, blobs, each) for key, each in played.items()}
        verified.promotions = promotion_check.check_promotions(told, rounds, judge)
    return played


def _check_opens_sealed(
    sealed: Bundle,
    played: dict[tuple[str, str], VerifiedRound],
    told: ContestState,
    blobs: PackedBlobs,
    judge: RulesResolver,
) -> int:
    """Returns how many commitments of a sealed bundle are opened, once it holds by itself."""
    try:
        verify_bundle(sealed, judge)
    except NotGenuine as found:
        [inside] = found.problems
        raise NotGenuine(f"sealed {inside.place}", inside.what) from None
    with untrusted("the sealed bundle"):
        return cross_check.check_opens_sealed(sealed, played, told, blobs, judge)
