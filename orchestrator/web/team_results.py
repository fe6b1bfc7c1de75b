"""The teams' results of rounds, computed once for each state because that reads every round; and their receipts."""

import threading
from pathlib import Path

from orchestrator.application.contests import contest_receipts, report_writer
from orchestrator.application.contests.team_reports import TeamReports, read_team_reports
from orchestrator.web.contest_site import ContestSite

_lock = threading.Lock()
_known: dict[str, tuple[object, TeamReports]] = {}


def reports_of(site: ContestSite) -> TeamReports:
    """Returns the reports of all teams and the findings. Raises StoreFault if a ledger is damaged."""
    season = site.season()
    rounds = report_writer.rounds_with_results(site.folder, site.contest(), season)
    state = (site.head, tuple((each.path, _written(each.results_path)) for each in rounds))
    place = str(site.folder.path)
    with _lock:
        if place not in _known or _known[place][0] != state:
            _known.clear()
            _known[place] = (state, read_team_reports(site.folder, rounds))
        return _known[place][1]


def finding_labels(site: ContestSite) -> dict[str, str]:
    """Returns the label of each finding by its id in the ledger, for readers who must not see that id."""
    return {found.id: found.label for several in reports_of(site).findings.values() for found in several}


def read_receipt(site: ContestSite, person: str, submission: str) -> bytes:
    """Returns the receipt of a submission, byte for byte as it was signed; writes it again if its file is missing."""
    path = contest_receipts.receipt_path(site.folder, submission)
    if not path.exists():  # the receiving process was killed before it wrote the receipt
        with site.administer_without_reports(person) as admin:
            contest_receipts.restore_receipts(admin)
    return path.read_bytes()


def _written(path: Path) -> int:
    """Returns when a file was written, in nanoseconds; 0 if there is none, as after an act that removes it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
