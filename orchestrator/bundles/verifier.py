"""A bundle, checked: signature, chains, commitments, and every number counted again. Nothing outside it is needed.

What is checked comes from anybody. The first thing that does not hold is raised as NotGenuine, with its place; a file
that is not the one that was signed is named even where something else shows first that it was changed. Digests of files
are computed last: then every byte was read as what the layout says it is, and none was hashed for nothing.
"""

from dataclasses import dataclass, field
from functools import partial

from orchestrator.bundles import cross_check, full_round_check, outcome_check, sealed_round_check
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
    round's secret and judged again, `outcomes`, such as promotions, follow from the boards at their time, and
    `commitments_opened` are the commitments of a sealed bundle that this one opens. `evidence_found` says where each
    thing is that its reader held.
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
    outcomes: int = 0
    commitments_opened: int = 0
    evidence_found: list[str] = field(default_factory=list)

    def add_round(self, name: str, seen: CheckCounts) -> None:
        """Counts a round."""
        self.rounds.append(name)
        for name_of_count in CheckCounts.__slots__:
            setattr(self, name_of_count, getattr(self, name_of_count) + getattr(seen, name_of_count))


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
        altered = bundle.find_altered_file(MAX_REHASHED_BYTES)
        raise (found if altered is None else _combined_error(altered, found)) from None
    if (altered := bundle.find_altered_file()) is not None:
        raise altered
    verified.evidence_found = check_held(bundle, held)
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
    contest = read_contest(bundle)
    verified.entries = len(contest.entries)
    verified.withheld = sum(link.event is None for link in contest.entries)
    if manifest.kind == "sealed":
        _check_sealed(bundle, contest, judge, verified)
        return verified
    with bundle.open_file(BLOBS) as packed, bundle.open_file(BLOB_INDEX) as index:
        blobs = PackedBlobs(packed, bundle.file_size(BLOBS), index)
        verified_rounds = _check_full(bundle, blobs, contest, judge, verified)
        if sealed is not None:
            verified.commitments_opened = _check_opens_sealed(sealed, verified_rounds, contest, blobs, judge)
    return verified


def _check_sealed(bundle: Bundle, contest: ContestState, judge: RulesResolver, verified: VerificationReport) -> None:
    rounds: dict[tuple[str, str], outcome_check.ViewAtHead] = {}
    for part in bundle.manifest.rounds:
        with untrusted(part.folder):
            record, seen = sealed_round_check.check_sealed_round(bundle, part, contest.season, judge)
        verified.add_round(part.folder, seen)
        rounds[part.round, part.task] = partial(_view_if_last, part, record)
    with untrusted(CONTEST):
        verified.outcomes = outcome_check.check_outcomes(contest, rounds, judge, sealed=True)


def _view_if_last(part: RoundPart, record: RoundView, head: str) -> RoundView | None:
    """Returns the record of a sealed round, of which only the last state is known."""
    return record if head == part.head else None


def _check_full(
    bundle: Bundle, blobs: PackedBlobs, contest: ContestState, judge: RulesResolver, verified: VerificationReport
) -> dict[tuple[str, str], VerifiedRound]:
    verified_rounds: dict[tuple[str, str], VerifiedRound] = {}
    for part in bundle.manifest.rounds:
        verified_rounds[part.round, part.task], seen = full_round_check.check_full_round(
            bundle, part, contest.season, judge, blobs, verified_rounds
        )
        verified.add_round(part.folder, seen)
    full_round_check.check_blobs(blobs, verified_rounds.values(), pictures=bundle.manifest.pictures)
    with untrusted(CONTEST):
        rounds = {key: partial(full_round_check.view_at_head, blobs, each) for key, each in verified_rounds.items()}
        verified.outcomes = outcome_check.check_outcomes(contest, rounds, judge, sealed=False)
    return verified_rounds


def _check_opens_sealed(
    sealed: Bundle,
    verified_rounds: dict[tuple[str, str], VerifiedRound],
    contest: ContestState,
    blobs: PackedBlobs,
    judge: RulesResolver,
) -> int:
    """Returns how many commitments of a sealed bundle are opened, once it holds by itself."""
    try:
        verify_bundle(sealed, judge)
    except NotGenuine as error:
        [inside] = error.problems
        raise NotGenuine(f"sealed {inside.place}", inside.what) from None
    with untrusted("the sealed bundle"):
        return cross_check.check_opens_sealed(sealed, verified_rounds, contest, blobs, judge)
