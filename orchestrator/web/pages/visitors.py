"""The public pages: the contest and its rules in words, boards, rounds, teams, downloads and progress."""

from functools import lru_cache
from pathlib import Path

from django.http import Http404, HttpResponseBase

from orchestrator.application.publishing import published_bundles
from orchestrator.application.rounds.round_progress import ContestProgress, ProgressReader, state_in_words
from orchestrator.errors import UsageError
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.web import contest_words, public_pages
from orchestrator.web.conditional_responses import conditional
from orchestrator.web.downloads import downloads_of
from orchestrator.web.file_responses import attachment, bundle_archive
from orchestrator.web.fragments import fragment
from orchestrator.web.pages import errors
from orchestrator.web.rights import Visit, team_slugs
from orchestrator.web.templating import render

_FILE_TYPES = {"csv": "text/csv; charset=utf-8", "md": "text/markdown; charset=utf-8"}


def home(visit: Visit) -> HttpResponseBase:
    """Shows the contest in words: what is played, when, and by which rules."""
    contest = visit.site.contest()
    window = visit.site.submission_window(visit.season)
    changed = str(contest.path.stat().st_mtime_ns)
    return conditional(
        visit,
        f"home {visit.site.head} {changed} {window.state}",
        lambda: render(
            visit,
            "home.html.j2",
            words=contest_words.contest_words(contest),
            window=contest_words.window_in_words(window),
            slugs=team_slugs(visit.season),
            dates=contest_words.dates(window),
            announcements=list(reversed(visit.season.announcements)),
            fingerprint=visit.site.key_fingerprint,
        ),
    )


def boards(visit: Visit) -> HttpResponseBase:
    """Shows all boards of all rounds."""
    pages = public_pages.pages_of(visit.site)
    if pages.parts(visit.request.path) is None:
        return conditional(visit, f"empty {pages.tag}", lambda: render(visit, "visitors/no_boards.html.j2"))
    return _public_page(visit)


def public_round(visit: Visit, name: str, task: str) -> HttpResponseBase:
    """Shows a round of a task: boards, matrix, submissions, findings."""
    del name, task  # `_public_page` finds the page by its address
    return _public_page(visit)


def public_team(visit: Visit, slug: str) -> HttpResponseBase:
    """Shows the public page of a team."""
    del slug
    return _public_page(visit)


def _public_page(visit: Visit) -> HttpResponseBase:
    pages, address = public_pages.pages_of(visit.site), visit.request.path
    parts = pages.parts(address)
    if parts is None:
        raise Http404
    title, body = parts
    state = f"{address} {pages.tag} {visit.site.contest().path.stat().st_mtime_ns}"
    return conditional(visit, state, lambda: render(visit, "visitors/public_page.html.j2", page_title=title, body=body))


def public_file(visit: Visit, name: str) -> HttpResponseBase:
    """Returns a file with the boards as text or as a table."""
    pages = public_pages.pages_of(visit.site)
    if name not in pages.files:
        raise Http404
    media_type = _FILE_TYPES[name.rpartition(".")[2]]
    return conditional(visit, f"{name} {pages.tag}", lambda: attachment(name, pages.files[name], media_type))


def downloads(visit: Visit) -> HttpResponseBase:
    """Lists the downloads."""
    return render(
        visit,
        "visitors/downloads.html.j2",
        downloads=downloads_of(visit.site),
        files=list(public_pages.pages_of(visit.site).files),
        bundles=published_bundles.sealed_names(visit.site.folder),
        key=visit.site.key_fingerprint,
    )


def download(visit: Visit, name: str) -> HttpResponseBase:
    """Returns one of the listed downloads."""
    if (bundle := name.removesuffix(".zip")) in published_bundles.sealed_names(visit.site.folder):
        return _bundle(visit, bundle)
    found = next((each for each in downloads_of(visit.site) if each.name == name), None)
    if found is None:
        raise Http404
    try:
        return attachment(found.name, found.make(), found.media_type)
    except UsageError as error:  # too many pictures for a zip archive: the organizers distribute them in another way
        raise Http404 from error


def _bundle(visit: Visit, name: str) -> HttpResponseBase:
    try:
        archive = published_bundles.bundle_archive(visit.site.folder, name)
    except UsageError:  # this bundle is being packed, or another one is being written
        return errors.unavailable(visit.request)
    if archive is None:
        raise Http404
    return bundle_archive(visit, archive)


def progress(visit: Visit) -> HttpResponseBase:
    """Shows what is being played and what waits."""
    response = render(visit, "visitors/progress.html.j2", progress=_read_progress(visit), in_words=state_in_words)
    response["Cache-Control"] = "private, no-cache"
    return response


def progress_fragment(visit: Visit) -> HttpResponseBase:
    """Returns the live part of the progress page; 304 if nothing changed, 204 if nothing is being played any more."""
    found = _read_progress(visit)
    return fragment(
        visit, "visitors/progress_part.html.j2", ended=found.is_idle, progress=found, in_words=state_in_words
    )


def _read_progress(visit: Visit) -> ContestProgress:
    return _reader(visit.site.folder.path).read(visit.site.contest(), visit.season)


@lru_cache(maxsize=1)
def _reader(folder: Path) -> ProgressReader:
    """Returns the progress reader of the contest that this process serves."""
    return ProgressReader(ContestFolder(folder))
