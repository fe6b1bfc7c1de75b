"""The routes that everybody may read: the contest, its status, rounds, announcements and boards."""

import json
from functools import lru_cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from ninja import Router

from orchestrator.domain.season import Season
from orchestrator.domain.text import iso_time
from orchestrator.ledger.stores.base import format_time
from orchestrator.redaction import redact_results
from orchestrator.scoring.results_file import Results
from orchestrator.web.api.access import PUBLIC, caller_of
from orchestrator.web.api.problems import unknown
from orchestrator.web.api.schemas import AnnouncementPart, ContestPart, RoundPart, StatusPart
from orchestrator.web.contest_site import ContestSite, web_settings

router = Router(auth=PUBLIC, tags=["everybody"])


@router.get("/contest", response=ContestPart)
def contest(request: HttpRequest) -> ContestPart:
    """The contest: its name, when it takes submissions, and its rules."""
    caller = caller_of(request)
    site, found = caller.site, caller.site.contest()
    file = found.file
    window = site.submission_window(caller.season)
    return ContestPart(
        contest=file.contest,
        title=file.title,
        format=file.format,
        opens=window.opens and iso_time(window.opens),
        closes=window.closes and iso_time(window.closes),
        labels=file.labels,
        access=file.access.kind.value,
        tasks=[task.name for task in file.all_tasks],
        takes_pictures=bool(found.format.picture_formats()),
        rules=found.format.rules.model_dump(mode="json"),
        prizes=file.prizes,
        key=site.key_fingerprint,
        largest_upload=web_settings().file.largest_upload,
    )


@router.get("/status", response=StatusPart)
def status(request: HttpRequest) -> StatusPart:
    """The current state of the contest."""
    caller = caller_of(request)
    file, now = caller.site.contest().file, caller.site.clock()
    window = caller.site.submission_window(caller.season)
    return StatusPart(
        time=format_time(now),
        title=file.title,
        state="before" if window.state == "early" else window.state,
        opens=window.opens and iso_time(window.opens),
        closes=window.closes and iso_time(window.closes),
        closed_by_organizers=window.closing is not None,
        close_reason=window.reason,
        waiting_arrivals=len(caller.season.pending_arrivals),
        rounds=_rounds(caller.site, caller.season),
        head=caller.site.head,
    )


@router.get("/rounds", response=list[RoundPart])
def rounds(request: HttpRequest) -> list[RoundPart]:
    """The rounds of every task, in order."""
    caller = caller_of(request)
    return _rounds(caller.site, caller.season)


@router.get("/announcements", response=list[AnnouncementPart])
def announcements(request: HttpRequest) -> list[AnnouncementPart]:
    """The organizers' announcements, the latest first."""
    every = reversed(caller_of(request).season.announcements)
    return [AnnouncementPart(time=each.time, title=each.title, text=each.text) for each in every]


@router.get("/boards", response={200: list[Results]})
def boards(request: HttpRequest, round: str = "", task: str = "") -> HttpResponse:  # noqa: A002  the API's name
    """The public results of every task, or of one: of the latest round with results, or of the named round."""
    caller = caller_of(request)
    tasks = [each.name for each in caller.site.contest().file.all_tasks]
    if task and task not in tasks:
        raise unknown("task")
    played = _rounds(caller.site, caller.season)
    if round and round not in {each.round for each in played}:
        raise unknown("round")
    found = []
    for name in [task] if task else tasks:
        names = [each.round for each in played if each.task == name and round in ("", each.round)]
        paths = [caller.site.folder.round(each, name).results_path for each in names]
        found += [_public_results(path) for path in reversed(paths) if path.exists()][:1]
    return HttpResponse(b"[" + b",".join(found) + b"]", content_type="application/json")


def _rounds(site: ContestSite, season: Season) -> list[RoundPart]:
    found = site.contest()
    parts = []
    for task in found.file.all_tasks:
        for each in found.format.rounds(season, task.name):
            requests = season.round_requests.values()
            if (each.name, task.name) in season.played_rounds:
                state = "played"
            elif site.folder.round(each.name, task.name).exists:
                state = "begun"
            elif each.blocked:
                state = "blocked"
            else:
                requested = any(one.round == each.name and one.task in ("", task.name) for one in requests)
                state = "requested" if requested else "ready"
            parts.append(
                RoundPart.model_validate(
                    {"task": task.name, "round": each.name, "state": state, "blocked": each.blocked}
                )
            )
    return parts


def _public_results(path: Path) -> bytes:
    changed = path.stat()
    return _read_public_results(path, changed.st_mtime_ns, changed.st_size)


@lru_cache(maxsize=16)
def _read_public_results(path: Path, _changed: int, _size: int) -> bytes:
    """Returns the public part of a results file, cached until the file's time or size changes."""
    public = redact_results(Results.model_validate_json(path.read_bytes()))
    return json.dumps(public.model_dump(mode="json")).encode()
