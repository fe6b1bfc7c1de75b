"""What teams see of rounds: made once for each state of the contest, since it reads every round."""

import threading
from pathlib import Path

from orchestrator.application.contests import report_writer
from orchestrator.application.contests.team_reports import TeamReports, read_team_reports
from orchestrator.web.contest_site import ContestSite

_lock = threading.Lock()
_known: dict[str, tuple[object, TeamReports]] = {}


def reports_of(site: ContestSite) -> TeamReports:
    """Returns the pages of all teams and the findings. Raises StoreFault where a record is damaged."""
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
    """Returns what findings are called by those who must not see their ids in the ledger, by these ids."""
    return {found.id: found.label for several in reports_of(site).findings.values() for found in several}


def _written(path: Path) -> int:
    """Returns when a file was written; 0 while there is none, as after an act that changes it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
