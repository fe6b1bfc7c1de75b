"""The teams' results of rounds, computed once for each state of the contest because that reads every round."""

import threading
from pathlib import Path

from orchestrator.application.contests import report_writer
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


def _written(path: Path) -> int:
    """Returns when a file was written, in nanoseconds; 0 if there is none, as after an act that removes it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
