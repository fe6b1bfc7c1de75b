"""What programs sign in with: tokens, and the login of a program by a person who approves it in the browser."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest

from django.db import IntegrityError, transaction
from django.db.models import Q

from orchestrator.errors import UsageError
from orchestrator.web.models import Account, ApiToken, DeviceLogin

PREFIX = "spar"
LONGEST_LIFETIME = timedelta(days=180)
DEVICE_TOKEN_LIFETIME = timedelta(days=90)
DEVICE_LIFETIME = timedelta(minutes=10)
POLL_INTERVAL = timedelta(seconds=5)
TOKENS_PER_ACCOUNT = 50
_SECRET_BYTES, _ID_BYTES = 32, 6
_USE_NOTED = timedelta(minutes=1)
"""How exact the time of the last use is: a write for each request would be dear."""
_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""Of user codes: no vowels, so that they are no words, and no digits, so that nothing looks like a letter."""
_HALF = 4


class Scope(StrEnum):
    """What a token may do. `submit` may all that `read` may."""

    READ = "read"
    SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class NewDeviceLogin:
    """What a program is told that wants to be let in."""

    device_code: str
    user_code: str


class PollState(StrEnum):
    """Why a program that polls has no token, in the words of RFC 8628."""

    PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    DENIED = "access_denied"
    EXPIRED = "expired_token"


def issue(account: Account, name: str, scope: Scope, *, now: datetime, lifetime: timedelta) -> str:
    """Makes a token and returns it, which nothing here can tell again.

    Raises:
        UsageError: it would hold for more than 180 days, or the account has too many.
    """
    if not timedelta(0) < lifetime <= LONGEST_LIFETIME:
        raise UsageError(f"a token holds for at most {LONGEST_LIFETIME.days} days; take fewer")
    if ApiToken.objects.filter(account=account).count() >= TOKENS_PER_ACCOUNT:
        raise UsageError(f"there are {TOKENS_PER_ACCOUNT} tokens already; revoke those that nothing uses")
    public_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES)
    ApiToken.objects.create(
        account=account,
        public_id=public_id,
        digest=_digest(secret),
        name=name,
        scope=scope.value,
        expires=now + lifetime,
    )
    return f"{PREFIX}_{public_id}_{secret}"


def find(token: str, now: datetime) -> ApiToken | None:
    """Returns a token, also one that has expired, and notes that it was used; None where there is none such."""
    prefix, _, rest = token.partition("_")
    public_id, _, secret = rest.partition("_")
    if prefix != PREFIX or not secret:
        return None
    row = ApiToken.objects.select_related("account").filter(public_id=public_id).first()
    if row is None or not compare_digest(row.digest, _digest(secret)) or not row.account.is_active:
        return None
    if now < row.expires and (row.last_used is None or now - row.last_used >= _USE_NOTED):
        ApiToken.objects.filter(pk=row.pk).update(last_used=now)
    return row


def begin_device_login(name: str, scope: Scope, now: datetime) -> NewDeviceLogin:
    """Lets a program wait for somebody to approve it, and returns its codes."""
    DeviceLogin.objects.filter(expires__lt=now - DEVICE_LIFETIME).delete()
    while True:
        letters = "".join(secrets.choice(_ALPHABET) for _ in range(2 * _HALF))
        begun = NewDeviceLogin(secrets.token_hex(_SECRET_BYTES), f"{letters[:_HALF]}-{letters[_HALF:]}")
        try:
            with transaction.atomic():
                DeviceLogin.objects.create(
                    device_digest=_digest(begun.device_code),
                    user_code=begun.user_code,
                    name=name,
                    scope=scope.value,
                    expires=now + DEVICE_LIFETIME,
                )
        except IntegrityError:  # somebody has this code at the moment
            continue
        return begun


def find_waiting(typed: str, now: datetime) -> DeviceLogin | None:
    """Returns the program that waits with a code, however the code was typed; None where none waits."""
    letters = "".join(character for character in typed.upper() if character.isalpha())
    code = f"{letters[:_HALF]}-{letters[_HALF:]}"
    waiting = Q(approved_by=None, denied=False, expires__gt=now)
    return DeviceLogin.objects.filter(waiting, user_code=code).first()


def answer(waiting: DeviceLogin, account: Account, now: datetime, *, approved: bool) -> bool:
    """Approves or denies a program; returns False where it waits no more."""
    still = DeviceLogin.objects.filter(pk=waiting.pk, approved_by=None, denied=False, expires__gt=now)
    changed = still.update(approved_by=account) if approved else still.update(denied=True)
    return changed == 1


def poll(device_code: str, now: datetime) -> str | PollState:
    """Returns the token of a program that was approved, once, or why it has none. Raises UsageError like `issue`."""
    with transaction.atomic():
        row = DeviceLogin.objects.select_for_update().filter(device_digest=_digest(device_code)).first()
        if row is None or now >= row.expires:
            return PollState.EXPIRED
        if row.denied:
            return PollState.DENIED
        if row.approved_by_id is None:
            too_soon = row.polled is not None and now - row.polled < POLL_INTERVAL
            row.polled = now
            row.save(update_fields=["polled"])
            return PollState.SLOW_DOWN if too_soon else PollState.PENDING
        row.delete()
        account = Account.objects.get(pk=row.approved_by_id)
        return issue(account, row.name, Scope(row.scope), now=now, lifetime=DEVICE_TOKEN_LIFETIME)


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
