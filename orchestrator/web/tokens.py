"""Tokens with which programs sign in, and device logins, in which a person approves a program in the browser."""

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
"""How often the time of the last use is written at most: a write for each request would be expensive."""
_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""The letters of user codes: no vowels, so that no code is a word, and no digits, which can look like letters."""
_HALF = 4


class Scope(StrEnum):
    """What a token allows. `submit` includes `read`."""

    READ = "read"
    SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class NewDeviceLogin:
    """The two codes that a program gets when it begins a device login."""

    device_code: str
    user_code: str


class PollState(StrEnum):
    """Why a polling program gets no token, in the words of RFC 8628."""

    PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    DENIED = "access_denied"
    EXPIRED = "expired_token"


def issue(account: Account, name: str, scope: Scope, *, now: datetime, lifetime: timedelta) -> str:
    """Makes a token and returns it. It cannot be shown again, because only its digest is kept.

    Raises:
        UsageError: `lifetime` is more than 180 days, or the account has too many tokens.
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
    """Returns the row of a token, even an expired one, None if there is none. Updates the last use of a valid token."""
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
    """Begins a device login, which waits for a person's approval, and returns its codes."""
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
        except IntegrityError:  # another login has this user code at the moment
            continue
        return begun


def find_waiting(typed: str, now: datetime) -> DeviceLogin | None:
    """Returns the waiting device login with a user code, None if there is none. Ignores case and punctuation."""
    letters = "".join(character for character in typed.upper() if character.isalpha())
    code = f"{letters[:_HALF]}-{letters[_HALF:]}"
    waiting = Q(approved_by=None, denied=False, expires__gt=now)
    return DeviceLogin.objects.filter(waiting, user_code=code).first()


def answer(waiting: DeviceLogin, account: Account, now: datetime, *, approved: bool) -> bool:
    """Approves or denies a device login; returns False if it no longer waits."""
    still = DeviceLogin.objects.filter(pk=waiting.pk, approved_by=None, denied=False, expires__gt=now)
    changed = still.update(approved_by=account) if approved else still.update(denied=True)
    return changed == 1


def poll(device_code: str, now: datetime) -> str | PollState:
    """Returns the token of an approved program, once only, or why it gets none. Raises UsageError like `issue`."""
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
