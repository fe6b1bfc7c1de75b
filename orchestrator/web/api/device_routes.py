"""How a program gets a token: it shows a code, and a person approves it in the browser."""

from django.http import HttpRequest
from django.urls import reverse
from ninja import Router

from orchestrator.errors import Problem
from orchestrator.web import tokens
from orchestrator.web.api.access import address_of, spend
from orchestrator.web.api.problems import ApiProblem
from orchestrator.web.api.schemas import DeviceCode, DevicePart, DeviceRequest, TokenPart
from orchestrator.web.contest_site import current_site, web_settings
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.tokens import PollState

router = Router(tags=["tokens"])
_WORDS = {
    PollState.PENDING: ("nobody approved it yet", "ask again after the interval"),
    PollState.SLOW_DOWN: ("was asked for too soon", "wait for the interval between two requests"),
    PollState.DENIED: ("a person denied it", "begin again if that was a mistake"),
    PollState.EXPIRED: ("this code is unknown, or has expired", "begin again"),
}


@router.post("/device", response={200: DevicePart}, auth=None)
def begin(request: HttpRequest, body: DeviceRequest) -> DevicePart:
    """Begins a login: the program shows the address and the user code, and polls with the device code."""
    site = current_site()
    spend(site, RequestKind.DEVICE, address_of(request))
    begun = tokens.begin_device_login(body.name, body.scope, site.clock())
    return DevicePart(
        device_code=begun.device_code,
        user_code=begun.user_code,
        verification_uri=web_settings().address + reverse("device"),
        interval=int(tokens.POLL_INTERVAL.total_seconds()),
        expires_in=int(tokens.DEVICE_LIFETIME.total_seconds()),
    )


@router.post("/device/token", response={200: TokenPart}, auth=None)
def poll(request: HttpRequest, body: DeviceCode) -> TokenPart:
    """Returns the token, once. Until approval: 400 with the code `authorization_pending` or `slow_down`."""
    site = current_site()
    spend(site, RequestKind.DEVICE_POLL, address_of(request))
    found = tokens.poll(body.device_code, site.clock())
    if isinstance(found, PollState):
        raise ApiProblem(400, found.value, Problem("device_code", *_WORDS[found]))
    return TokenPart(token=found)
