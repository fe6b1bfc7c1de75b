"""Messages of use cases, written for readers of the site: no path of the server, and pages beside commands."""

import re
import shlex
from pathlib import PurePosixPath

from orchestrator.errors import Problem, Rejected, SparringError

_PAGES = {
    "round run": "Rounds",
    "round promote": "Rounds",
    "round request": "Rounds",
    "rescore": "Rules",
    "contest close": "Close",
    "contest reopen": "Close",
    "contest announce": "Announce",
    "publish": "Publish",
    "role grant": "People",
    "grade plan": "Grading",
    "grade more": "Grading",
    "grade status": "Grading",
    "disqualify": "Submissions",
    "set-source": "Submissions",
}
"""Command -> the organizers' page that does the same."""
_COMMAND = re.compile(r"`sparring ([^`]*)`")
_BROKEN_FILE = Problem(
    "contest.yaml",
    "cannot be read at the moment; the organizers see why under Organize",
    "send the same again once it is corrected",
)


def for_site(text: str, folder: str) -> str:
    """Returns a message without the path of the contest's folder, and with the page that does what a command does."""
    own, quoted = PurePosixPath(folder).name, shlex.quote(folder)
    end = r"(?![\w.-]|/)"

    def shown(found: re.Match[str]) -> str:
        command = re.sub(f"{re.escape(quoted)}{end}", lambda _: shlex.quote(own), found[1])
        pages = [page for name, page in _PAGES.items() if re.match(rf"{name}\b", command)]
        return f"`sparring {command}`" + (f" (here: {pages[0]})" if pages else "")

    text = _COMMAND.sub(shown, text)
    text = text.replace(f"{folder}/", "")
    return re.sub(f"{re.escape(folder)}{end}", "the contest's folder", text)


def site_problems(error: SparringError, folder: str) -> list[Problem]:
    """Returns what an error says to whoever sent a form or a request. Nobody but organizers can mend contest.yaml."""
    if not isinstance(error, Rejected):
        what, _, remedy = for_site(str(error), folder).partition("; ")
        return [Problem("request", what, remedy)]
    if error.subject == f"{folder}/contest.yaml":
        return [_BROKEN_FILE]
    return [Problem(*(for_site(text, folder) for text in (p.place, p.what, p.remedy))) for p in error.problems]
