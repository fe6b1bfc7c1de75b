"""The service's own tables, whose rows may be deleted. A ledger holds no row of them, only people's opaque ids."""

import secrets
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models

PERSON_BYTES = 8
TOKEN_NAME_LIMIT = 80


def new_person_id() -> str:
    """Returns a random id for a person in ledgers, which identifies nobody once the account is deleted."""
    return f"person-{secrets.token_hex(PERSON_BYTES)}"


class Account(AbstractBaseUser):
    """Somebody who signed up. There is no password; `password` is the base class's and stays unusable."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120)
    """The name that others see; the ledger has it in everything that this person does in a team."""
    person = models.CharField(max_length=40, unique=True, default=new_person_id, editable=False)
    """The person's id in ledgers."""
    is_active = models.BooleanField(default=True)
    joined = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]
    objects = BaseUserManager()

    def __str__(self) -> str:
        return self.name


class Invitation(models.Model):
    """A link that gives the person who opens it membership of a team, or a role. Only its secret's digest is kept."""

    digest = models.CharField(max_length=64, unique=True)
    team = models.CharField(max_length=120, blank=True)
    role = models.CharField(max_length=20, blank=True)
    invited_by = models.CharField(max_length=120)
    """The id of the inviting person in the ledger."""
    expires = models.DateTimeField()
    uses_left = models.PositiveSmallIntegerField(default=1)

    def __str__(self) -> str:
        return self.team or self.role


class ApiToken(models.Model):
    """A token with which a program acts for a person. Only the digest of its secret is kept."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE)
    public_id = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    name = models.CharField(max_length=TOKEN_NAME_LIMIT)
    scope = models.CharField(max_length=10)
    expires = models.DateTimeField()
    created = models.DateTimeField(auto_now_add=True)
    last_used = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class DeviceLogin(models.Model):
    """A program that waits for a person to approve it in the browser. Only digests of its codes are kept."""

    device_digest = models.CharField(max_length=64, unique=True)
    user_code = models.CharField(max_length=9, unique=True)
    name = models.CharField(max_length=TOKEN_NAME_LIMIT)
    scope = models.CharField(max_length=10)
    expires = models.DateTimeField()
    approved_by = models.ForeignKey(Account, on_delete=models.CASCADE, null=True)
    denied = models.BooleanField(default=False)
    polled = models.DateTimeField(null=True)
    """When the program last asked, so that a program that asks too often can be told to slow down."""

    def __str__(self) -> str:
        return self.name


class Upload(models.Model):
    """A file that is sent in parts. Its first `offset` bytes are certainly on disk."""

    public_id = models.CharField(max_length=32, unique=True)
    account = models.ForeignKey(Account, on_delete=models.CASCADE)
    team = models.CharField(max_length=120)
    task = models.CharField(max_length=120)
    side = models.CharField(max_length=10, blank=True)
    name = models.CharField(max_length=120, blank=True)
    """Side and name as the client gave them; empty if the manifest gives them."""
    file_name = models.CharField(max_length=200)
    digest = models.CharField(max_length=71)
    """The digest of the whole file that the client announced: `sha256:...`."""
    size = models.PositiveBigIntegerField()
    offset = models.PositiveBigIntegerField(default=0)
    expires = models.DateTimeField()
    arrival = models.CharField(max_length=16, blank=True)
    """The id of the arrival that the complete file became; empty before that."""

    def __str__(self) -> str:
        return self.file_name


class RequestBudget(models.Model):
    """How many requests of one kind a client has left: a token bucket, see `rate_limits`."""

    key = models.CharField(max_length=120, unique=True)
    tokens = models.FloatField()
    updated = models.DateTimeField()

    def __str__(self) -> str:
        return self.key
