"""Every address of the service with the right that it needs: the only table of who may open what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allauth.account import views as account_views
from allauth.decorators import rate_limit
from allauth.socialaccount import views as provider_views
from allauth.usersessions import views as session_views
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView

from orchestrator.web import static_files
from orchestrator.web.api import problems as api_problems
from orchestrator.web.api.service import api
from orchestrator.web.contest_site import web_settings
from orchestrator.web.pages import (
    accounts,
    attack_pictures,
    board,
    health,
    judging,
    organizer_closing,
    organizer_rounds,
    organizer_submissions,
    organizers,
    raters,
    review,
    submissions,
    teams,
    tokens,
    visitors,
    week_desk,
    weeks,
)
from orchestrator.web.rights import Right, View, allowed
from orchestrator.web.settings import CODE_TRIES


@dataclass(frozen=True, slots=True)
class Page:
    """An address, its view, its name, and the right that it needs. `<team>` in an address is the team's slug."""

    route: str
    view: View
    name: str
    right: Right


PAGES: Sequence[Page] = (
    Page("", visitors.home, "home", Right.EVERYBODY),
    Page("boards/", visitors.boards, "boards", Right.EVERYBODY),
    Page("rounds/<str:name>/<str:task>/", visitors.public_round, "public-round", Right.EVERYBODY),
    Page("teams/<slug:slug>/", visitors.public_team, "public-team", Right.EVERYBODY),
    Page("files/<str:name>", visitors.public_file, "public-file", Right.EVERYBODY),
    Page("downloads/", visitors.downloads, "downloads", Right.EVERYBODY),
    Page("downloads/<str:name>", visitors.download, "download", Right.EVERYBODY),
    Page("progress/", visitors.progress, "progress", Right.EVERYBODY),
    Page("progress/fragment/", visitors.progress_fragment, "progress-fragment", Right.EVERYBODY),
    Page("healthz/", health.health, "health", Right.EVERYBODY),
    Page("account/", accounts.profile, "profile", Right.SIGNED_IN),
    Page("account/tokens/", tokens.list_tokens, "tokens", Right.SIGNED_IN),
    Page("account/tokens/<slug:token>/revoke/", tokens.revoke_token, "revoke-token", Right.SIGNED_IN),
    Page("account/device/", tokens.device, "device", Right.SIGNED_IN),
    Page("account/delete/", accounts.delete_account, "delete-account", Right.SIGNED_IN),
    Page("invitations/<slug:secret>/", accounts.invitation, "invitation", Right.EVERYBODY),
    Page("my/", teams.my_teams, "my-teams", Right.SIGNED_IN),
    Page("my/<slug:team>/", teams.team_page, "team", Right.TEAM),
    Page("my/<slug:team>/waiting/", teams.waiting_fragment, "team-waiting", Right.TEAM),
    Page("my/<slug:team>/invitation/", teams.invite, "team-invitation", Right.TEAM),
    Page("my/<slug:team>/results/", teams.results, "team-results", Right.TEAM),
    Page("my/<slug:team>/submit/", submissions.submit, "submit", Right.TEAM),
    Page("my/<slug:team>/submit/image/", submissions.submit_image, "submit-image", Right.TEAM),
    Page("my/<slug:team>/arrivals/<slug:arrival>/", submissions.arrival, "arrival", Right.TEAM),
    Page(
        "my/<slug:team>/arrivals/<slug:arrival>/fragment/",
        submissions.arrival_fragment,
        "arrival-fragment",
        Right.TEAM,
    ),
    *(
        Page(f"my/<slug:team>/submissions/<slug:submission>/{route}", view, name, Right.TEAM)
        for route, view, name in (
            ("", submissions.submission, "submission"),
            ("withdraw/", submissions.withdraw, "withdraw"),
            ("correct/", submissions.correct, "correct"),
            ("appeal/", submissions.file_appeal, "file-appeal"),
            ("receipt/", submissions.receipt, "receipt"),
            ("findings/<str:finding>/", submissions.finding, "team-finding"),
        )
    ),
    Page("organize/", organizers.overview, "organize", Right.ORGANIZER),
    Page("organize/rounds/", organizer_rounds.rounds, "organize-rounds", Right.ORGANIZER),
    Page("organize/rounds/<str:round_name>/", organizer_rounds.one_round, "organize-round", Right.ORGANIZER),
    Page("organize/requests/<str:request_id>/cancel/", organizer_rounds.cancel, "cancel-request", Right.ORGANIZER),
    Page("organize/promote/", organizer_rounds.promote, "promote", Right.ORGANIZER),
    Page("organize/rules/", organizer_rounds.rules, "organize-rules", Right.ORGANIZER),
    Page("organize/publish/", organizer_rounds.publish, "organize-publish", Right.ORGANIZER),
    Page("organize/publish/<str:bundle_name>.zip", organizer_rounds.bundle, "organize-bundle", Right.ORGANIZER),
    Page("organize/submissions/", organizer_submissions.submissions, "organize-submissions", Right.ORGANIZER),
    Page(
        "organize/submissions/<str:submission>/disqualify/",
        organizer_submissions.disqualify,
        "disqualify",
        Right.ORGANIZER,
    ),
    Page(
        "organize/submissions/<str:submission>/correct/",
        organizer_submissions.correct,
        "organizer-correct",
        Right.ORGANIZER,
    ),
    Page("organize/close/", organizer_closing.close, "organize-close", Right.ORGANIZER),
    Page("organize/reopen/", organizer_closing.reopen, "organize-reopen", Right.ORGANIZER),
    Page("organize/announce/", organizers.announce, "organize-announce", Right.ORGANIZER),
    Page("organize/people/", organizers.people, "organize-people", Right.ORGANIZER),
    Page(
        "organize/people/invitations/<int:key>/withdraw/",
        organizers.withdraw_invitation,
        "withdraw-invitation",
        Right.ORGANIZER,
    ),
    Page("organize/people/<str:role>/<path:person>/revoke/", organizers.revoke, "revoke-role", Right.ORGANIZER),
    Page("organize/ledger/", organizers.ledger, "organize-ledger", Right.ORGANIZER),
    Page("review/", review.appeals_list, "review", Right.BOARD),
    Page("review/<str:appeal_id>/", review.appeal, "review-appeal", Right.BOARD),
    Page("organize/grading/", raters.grading, "grading", Right.ORGANIZER),
    Page("organize/grading/more/", raters.more_answers, "grading-more", Right.ORGANIZER),
    Page("rate/", raters.start, "rate", Right.RATER),
    Page("rate/next/", raters.next_item, "rate-next", Right.RATER),
    Page("rate/last/", raters.last_item, "rate-last", Right.RATER),
    Page("rate/pictures/<slug:token>/<int:number>/", raters.picture, "rate-picture", Right.RATER),
)
WEEK_PAGES: Sequence[Page] = (
    Page("weeks/", weeks.weeks, "weeks", Right.EVERYBODY),
    Page("weeks/<str:week_id>/", weeks.week, "week", Right.EVERYBODY),
    Page("pictures/<str:picture_id>/", weeks.picture, "week-picture", Right.EVERYBODY),
    Page("pictures/<str:picture_id>/file/", weeks.picture_file, "week-picture-file", Right.EVERYBODY),
    Page("standing/", weeks.standing, "standing", Right.EVERYBODY),
    Page("money/", weeks.money, "money", Right.EVERYBODY),
    Page("my/<slug:team>/pictures/", attack_pictures.pictures, "team-pictures", Right.TEAM),
    Page("my/<slug:team>/conflict/", attack_pictures.conflict, "team-conflict", Right.TEAM),
    Page("my/<slug:team>/pictures/<str:picture_id>/", attack_pictures.picture, "team-picture", Right.TEAM),
    Page("my/<slug:team>/pictures/<str:picture_id>/receipt/", attack_pictures.receipt, "picture-receipt", Right.TEAM),
    Page("organize/weeks/", week_desk.desk, "organize-weeks", Right.ORGANIZER),
    Page("organize/weeks/seat/", week_desk.seat, "seat-member", Right.ORGANIZER),
    Page("organize/weeks/admit/", week_desk.admit, "admit-team", Right.ORGANIZER),
    Page("organize/weeks/stake/", week_desk.stake, "record-stake", Right.ORGANIZER),
    Page("organize/weeks/payment/", week_desk.payment, "record-payment", Right.ORGANIZER),
    Page("judge/", judging.judge, "judge", Right.RATER),
    Page("judge/pictures/<str:token>/", judging.picture, "judge-picture", Right.RATER),
    Page("board/", board.cases, "board", Right.BOARD),
    Page("board/conflicts/", board.conflicts, "board-conflicts", Right.BOARD),
    Page("board/conflicts/waive/", board.waive, "waive-conflict", Right.BOARD),
    # A case may name a team, and a team's name may have a slash.
    Page("board/cases/<path:case>/", board.case, "board-case", Right.BOARD),
    Page("board/pictures/<path:case>/", board.case_picture, "board-case-picture", Right.BOARD),
)
"""The pages of an unrestricted contest; a contest of another format answers with 404."""

_count_tries = rate_limit(action=CODE_TRIES)
"""A code ends after three wrong tries. This also limits a client that tries many codes, or one in parallel requests."""
_ACCOUNT_VIEWS: Sequence[tuple[str, Any, str]] = (
    ("account/login/", account_views.request_login_code, "account_request_login_code"),
    ("account/login/confirm/", _count_tries(account_views.confirm_login_code), "account_confirm_login_code"),
    ("account/signup/", account_views.signup, "account_signup"),
    ("account/email/confirm/", _count_tries(account_views.email_verification_sent), "account_email_verification_sent"),
    ("account/logout/", account_views.logout, "account_logout"),
    ("account/inactive/", account_views.account_inactive, "account_inactive"),
    ("account/sessions/", session_views.list_usersessions, "usersessions_list"),
    ("account/start/", RedirectView.as_view(pattern_name="account_request_login_code"), "account_login"),
)
"""The views of allauth that are served. Each decides itself who may open it."""
_PROVIDER_VIEWS: Sequence[tuple[str, Any, str]] = (
    ("account/provider/signup/", provider_views.signup, "socialaccount_signup"),
    ("account/provider/cancelled/", provider_views.login_cancelled, "socialaccount_login_cancelled"),
    ("account/provider/error/", provider_views.login_error, "socialaccount_login_error"),
)
"""The views of allauth that are served only if a sign-in provider is configured."""


def _provider_urls() -> list[URLPattern | URLResolver]:
    file = web_settings().file
    found: list[URLPattern | URLResolver] = []
    if file.openid:
        found.append(path("account/", include("allauth.socialaccount.providers.openid_connect.urls")))
    if file.github:
        found.append(path("account/", include("allauth.socialaccount.providers.github.urls")))
    return [*(path(route, view, name=name) for route, view, name in _PROVIDER_VIEWS), *found] if found else []


urlpatterns = [
    *(path(page.route, allowed(page.view, page.right), name=page.name) for page in (*PAGES, *WEEK_PAGES)),
    *(path(route, view, name=name) for route, view, name in _ACCOUNT_VIEWS),
    *_provider_urls(),
    path("api/v1/", api.urls),
    re_path("^api/(?P<rest>.*)$", api_problems.not_found),
    path("static/<str:digest>/<str:name>", static_files.serve, name="static"),
]
handler400 = "orchestrator.web.pages.errors.bad_request"
handler403 = "orchestrator.web.pages.errors.forbidden"
handler404 = "orchestrator.web.pages.errors.not_found"
handler429 = "orchestrator.web.pages.errors.too_many_tries"
handler500 = "orchestrator.web.pages.errors.server_error"
