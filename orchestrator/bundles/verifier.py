"""Verifies a bundle by itself: signature, chains, commitments, and every number, which it computes again.

Bundles are hostile input. The first failed check is raised as NotGenuine, with its place. If a file is not the one that
was signed, the error names it even if another check fails first. Digests of files are computed last: by then every file
was read in the form that the layout requires, and no bytes were hashed in vain.
"""

from dataclasses import dataclass, field
from functools import partial

from orchestrator.bundles import cross_check, full_round_check, outcome_check, sealed_round_check
from orchestrator.bundles.layout import BLOB_INDEX, BLOBS, CONTEST, MAX_REHASHED_BYTES, RoundPart
from orchestrator.bundles.packed_blobs import PackedBlobs
from orchestrator.bundles.prior_evidence import NO_EVIDENCE, PriorEvidence, find_evidence
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
    """How much was checked in a bundle that passed.

    `entries` counts the entries of all ledgers, `withheld` those of which only the leaf is shown. `numbers` counts the
    numbers in results files; all were recomputed, except measured ones in a sealed bundle. `replays` were repeated from
    the round's secret and judged again. `outcomes` counts events, such as promotions, that follow from the leaderboards
    of their time. `commitments_opened` are the commitments of a sealed bundle that this one opens. `evidence_found` has
    the place of each piece of the reader's prior evidence.
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
        """Adds the counts of a round."""
        self.rounds.append(name)
        for name_of_count in CheckCounts.__slots__:
            setattr(self, name_of_count, getattr(self, name_of_count) + getattr(seen, name_of_count))


def verify_bundle(
    bundle: Bundle, resolve_rules: RulesResolver, sealed: Bundle | None = None, evidence: PriorEvidence = NO_EVIDENCE
) -> VerificationReport:
    """Verifies a bundle and returns how much was checked.

    Args:
        bundle: the bundle to verify.
        resolve_rules: returns the format with the rules of a round, and the season's eligibilities.
        sealed: an earlier sealed bundle of the same contest, whose commitments this one has to open.
        evidence: the prior evidence of the reader, which has to be in the bundle.

    Raises:
        NotGenuine: at the first failed check.
        UsageError: only a full bundle opens a sealed one.
    """
    if sealed is not None and (bundle.manifest.kind, sealed.manifest.kind) != ("full", "sealed"):
        raise UsageError("only a full bundle opens a sealed one: give the full one, and the other with --sealed")
    try:
        report = _check_bundle(bundle, resolve_rules, sealed)
    except NotGenuine as found:
        altered = bundle.find_altered_file(MAX_REHASHED_BYTES)
        raise (found if altered is None else _combined_error(altered, found)) from None
    if (altered := bundle.find_altered_file()) is not None:
        raise altered
    report.evidence_found = find_evidence(bundle, evidence)
    return report


def _combined_error(altered: NotGenuine, found: NotGenuine) -> NotGenuine:
    """Returns the error of an altered file, at the more exact place of the check that failed because of it."""
    [file], [inside] = altered.problems, found.problems
    if inside.place.startswith(file.place):
        return NotGenuine(inside.place, f"{inside.what}; {file.place} is not the file that was signed")
    return NotGenuine(file.place, f"{file.what}; with it, this does not hold: {inside.place} {inside.what}")


def _check_bundle(bundle: Bundle, resolve_rules: RulesResolver, sealed: Bundle | None) -> VerificationReport:
    manifest = bundle.manifest
    report = VerificationReport(manifest.kind, manifest.contest, manifest.software, bundle.key, bundle.digest)
    contest = read_contest(bundle)
    report.entries = len(contest.entries)
    report.withheld = sum(entry.event is None for entry in contest.entries)
    if manifest.kind == "sealed":
        _check_sealed(bundle, contest, resolve_rules, report)
        return report
    with bundle.open_file(BLOBS) as packed, bundle.open_file(BLOB_INDEX) as index:
        blobs = PackedBlobs(packed, bundle.file_size(BLOBS), index)
        verified_rounds = _check_full(bundle, blobs, contest, resolve_rules, report)
        if sealed is not None:
            report.commitments_opened = _check_opens_sealed(sealed, verified_rounds, contest, blobs, resolve_rules)
    return report


def _check_sealed(
    bundle: Bundle, contest: ContestState, resolve_rules: RulesResolver, report: VerificationReport
) -> None:
    rounds: dict[tuple[str, str], outcome_check.ViewAtHead] = {}
    for part in bundle.manifest.rounds:
        with untrusted(part.folder):
            record, seen = sealed_round_check.check_sealed_round(bundle, part, contest.season, resolve_rules)
        report.add_round(part.folder, seen)
        rounds[part.round, part.task] = partial(_view_if_last, part, record)
    with untrusted(CONTEST):
        report.outcomes = outcome_check.check_outcomes(contest, rounds, resolve_rules, sealed=True)


def _view_if_last(part: RoundPart, record: RoundView, head: str) -> RoundView | None:
    """Returns the record of a sealed round if `head` is its end, else None: only its last state is known."""
    return record if head == part.head else None


def _check_full(
    bundle: Bundle,
    blobs: PackedBlobs,
    contest: ContestState,
    resolve_rules: RulesResolver,
    report: VerificationReport,
) -> dict[tuple[str, str], VerifiedRound]:
    verified_rounds: dict[tuple[str, str], VerifiedRound] = {}
    for part in bundle.manifest.rounds:
        verified_rounds[part.round, part.task], seen = full_round_check.check_full_round(
            bundle, part, contest.season, resolve_rules, blobs, verified_rounds
        )
        report.add_round(part.folder, seen)
    full_round_check.check_blobs(blobs, verified_rounds.values(), pictures=bundle.manifest.pictures)
    with untrusted(CONTEST):
        rounds = {key: partial(full_round_check.view_at_head, blobs, each) for key, each in verified_rounds.items()}
        report.outcomes = outcome_check.check_outcomes(contest, rounds, resolve_rules, sealed=False)
    return verified_rounds


def _check_opens_sealed(
    sealed: Bundle,
    verified_rounds: dict[tuple[str, str], VerifiedRound],
    contest: ContestState,
    blobs: PackedBlobs,
    resolve_rules: RulesResolver,
) -> int:
    """Verifies a sealed bundle by itself, then returns how many of its commitments are opened."""
    try:
        verify_bundle(sealed, resolve_rules)
    except NotGenuine as error:
        [inside] = error.problems
        raise NotGenuine(f"sealed {inside.place}", inside.what) from None
    with untrusted("the sealed bundle"):
        return cross_check.check_opens_sealed(sealed, verified_rounds, contest, blobs, resolve_rules)
