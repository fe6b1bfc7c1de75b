"""The organizers' pages of rounds: their states, requests for rounds, promotion, changed rules, and bundles."""

from hashlib import sha256
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests import promotion, rescoring, round_requests, round_states
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.ledger_in_words import read_contest_entries
from orchestrator.application.publishing import bundles, published_bundles
from orchestrator.bundles.layout import BundleKind
from orchestrator.domain.contest_events import FormatEvent, RoundRequestClosed, RoundRequested
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import Rejected, UsageError
from orchestrator.web.contest_words import window_in_words
from orchestrator.web.file_responses import bundle_archive
from orchestrator.web.form_actions import OnceForm, act_once, form_status, redirect_after
from orchestrator.web.organizer_forms import PromoteForm, PublishForm, RoundForm, RulesForm
from orchestrator.web.people import names_of
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render

_CHANGED = "it has changed since you opened the page; look at it again"


def rounds(visit: Visit) -> HttpResponseBase:
    """Shows every round of every task, open requests for rounds, and how earlier requests ended."""
    contest = visit.site.contest()
    asked, ended = {}, []
    for entry in read_contest_entries(visit.site.folder):
        if isinstance(entry.event, RoundRequested):
            asked[entry.event.request] = entry.event
        elif isinstance(entry.event, RoundRequestClosed):
            ended.append((entry, asked[entry.event.request]))
    return render(
        visit,
        "organize/rounds.html.j2",
        states=round_states.round_states(visit.site.folder, contest, visit.season),
        ended=ended[::-1][:20],
        promotes_from=contest.format.promotes_from,
        names=names_of(visit.season),
        window_in_words=window_in_words(visit.site.submission_window(visit.season)),
    )


def one_round(visit: Visit, round_name: str) -> HttpResponseBase:
    """Shows what a round would play now, and requests it."""
    contest = visit.site.contest()
    states = round_states.round_states(visit.site.folder, contest, visit.season)
    own = [state for state in states if state.name == round_name]
    if not own:
        raise Http404
    form, problem = RoundForm([state.task for state in own], visit.request.POST or None), ""
    if form.is_valid():
        task = form.cleaned_data["task"]
        problem, done = act_once(visit, form, lambda admin: round_requests.request_round(admin, round_name, task))
        if not problem:
            return redirect_after(visit, "organize-rounds", done=done, text=f"The round {round_name} is requested.")
    return render(
        visit,
        "organize/round.html.j2",
        name=round_name,
        form=form,
        problem=problem,
        outlooks=[round_states.round_outlook(contest, visit.season, state, states) for state in own],
        folder=visit.site.folder.path.name,
        status=form_status(form, problem),
    )


def cancel(visit: Visit, request_id: str) -> HttpResponseBase:
    """Cancels a request for a round."""
    request = visit.season.round_requests.get(request_id)
    if request is None:
        raise Http404
    form, problem = OnceForm(visit.request.POST or None), ""
    if form.is_valid():
        problem, done = act_once(visit, form, lambda admin: round_requests.cancel_request(admin, request_id))
        if not problem:
            return redirect_after(visit, "organize-rounds", done=done, text="The request is cancelled.")
    return render(
        visit,
        "organize/cancel.html.j2",
        asked=request,
        form=form,
        problem=problem,
        names=names_of(visit.season),
        status=form_status(form, problem),
    )


def promote(visit: Visit) -> HttpResponseBase:
    """Shows which submissions would be promoted to the next round, and records the promotion."""
    first = visit.site.contest().format.promotes_from
    if not first:
        raise Http404
    form, problem = PromoteForm(visit.request.POST or None), ""
    if form.is_valid():

        def act(admin: ContestAdmin) -> None:
            with admin.alone():
                if _promotion_digest(promotion.preview_promotion(admin)) != form.cleaned_data["shown"]:
                    raise UsageError(_CHANGED)
                promotion.promote(admin, reason=form.cleaned_data["reason"])

        problem, done = act_once(visit, form, act)
        if not problem:
            return redirect_after(visit, "organize-rounds", done=done, text="The promotion is recorded.")
    would: dict[str, FormatEvent] = {}
    begun: list[tuple[str, str]] = []
    warnings: dict[str, list[str]] = {}
    obstacle = ""
    try:
        with visit.site.administer(visit.actor.person) as admin:
            would, begun = promotion.preview_promotion(admin), promotion.rounds_after_promotion(admin)
            warnings = promotion.promotion_warnings(admin, would)
    except (Rejected, UsageError) as error:
        obstacle = str(error)
    lost = form if problem and obstacle else None
    if not form.is_bound or problem:
        typed = form.cleaned_data["reason"] if problem else ""
        form = PromoteForm(initial={"shown": _promotion_digest(would), "reason": typed})
    return render(
        visit,
        "organize/promote.html.j2",
        first=first,
        form=form,
        problem=problem,
        lost=lost,
        obstacle=obstacle,
        would=would,
        warnings=warnings,
        begun=begun,
        status=form_status(form, problem),
    )


def _promotion_digest(would: dict[str, FormatEvent]) -> str:
    """Returns a digest of the promotions, independent of the organizer and the reason."""
    events = {task: event.model_dump(mode="json", exclude={"actor", "reason"}) for task, event in would.items()}
    return _digest(events)


def _digest(document: object) -> str:
    return sha256(canonical_json(document).encode()).hexdigest()


def rules(visit: Visit) -> HttpResponseBase:
    """Shows every board under the changed rules in contest.yaml, and records the decision about these rules."""
    form, problem = RulesForm(visit.request.POST or None), ""
    if form.is_valid():

        def act(admin: ContestAdmin) -> None:
            with admin.alone():
                if _digest(rescoring.changed_rules(admin)) != form.cleaned_data["shown"]:
                    raise UsageError(_CHANGED)
                rescoring.record_decision(
                    admin, form.cleaned_data["reason"], apply=form.cleaned_data["decision"] == "apply"
                )

        problem, done = act_once(visit, form, act)
        if not problem:
            return redirect_after(visit, "organize-rules", done=done, text="The decision is on the record.")
    obstacle, rescored = "", []
    changed: dict[str, tuple[Any, Any]] = {}
    try:
        with visit.site.administer(visit.actor.person) as admin:
            changed = rescoring.changed_rules(admin)
            rescored = rescoring.rescore(admin) if changed else []
    except (Rejected, UsageError) as error:  # the file cannot be read, or a board cannot be computed under its rules
        obstacle = str(error)
    lost = form if problem and (obstacle or not changed) else None
    if not form.is_bound or problem:
        typed = form.cleaned_data["reason"] if problem else ""
        form = RulesForm(initial={"shown": _digest(changed), "reason": typed})
    return render(
        visit,
        "organize/rules.html.j2",
        form=form,
        problem=problem,
        lost=lost,
        obstacle=obstacle,
        changed={name: tuple(map(canonical_json, pair)) for name, pair in changed.items()},
        rescored=[(one, rescoring.changed_rows(one)) for one in rescored],
        status=form_status(form, problem),
    )


def publish(visit: Visit) -> HttpResponseBase:
    """Shows the published bundles and the obstacles to another one, and publishes a bundle.

    The request waits while the bundle is written. A bundle appears only when it is complete, so an aborted request
    loses only the time, and the page shows afterwards whether the bundle exists.
    """
    form, problem, folder = PublishForm(visit.request.POST or None), "", visit.site.folder
    if form.is_valid():
        name, unfinished = form.cleaned_data["name"], form.cleaned_data["unfinished"]
        problem, done = act_once(
            visit, form, lambda admin: published_bundles.publish(admin, name, unfinished=unfinished)
        )
        if not problem:
            return redirect_after(visit, "organize-publish", done=done, text=f"{name} is written and checked.")
    offers = []
    for kind in published_bundles.KINDS:
        fresh = PublishForm(initial={"name": published_bundles.next_name(folder, kind)}, auto_id=f"id_{kind}_%s")
        if kind == "sealed":
            del fresh.fields["unfinished"]
        offers.append((kind, fresh, *_publishable(visit, kind)))
    return render(
        visit,
        "organize/publish.html.j2",
        offers=offers,
        problem=problem,
        names=published_bundles.bundle_names(folder),
        key=visit.site.key_fingerprint,
        status=form_status(form, problem),
    )


def _publishable(visit: Visit, kind: BundleKind) -> tuple[bool, str]:
    """Returns whether a bundle can be published at all, and the obstacle that the organizers would have to override."""
    obstacle = ""
    for unfinished in (False, True) if kind == "full" else (False,):
        try:
            with visit.site.administer(visit.actor.person) as admin:
                bundles.require_publishable(admin, kind, unfinished=unfinished)
        except (Rejected, UsageError) as error:
            obstacle = obstacle or str(error)
        else:
            return True, obstacle
    return False, obstacle


def bundle(visit: Visit, bundle_name: str) -> HttpResponseBase:
    """Returns a bundle as a zip archive."""
    try:
        archive = published_bundles.bundle_archive(visit.site.folder, bundle_name)
    except UsageError as error:  # another is being written
        messages.error(visit.request, str(error))
        return redirect("organize-publish")
    if archive is None:
        raise Http404
    return bundle_archive(visit, archive)
