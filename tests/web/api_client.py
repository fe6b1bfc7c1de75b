"""A client with a team's token for tests of the API, which uses Django's test client in this process."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta

from django.test import Client

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.web import tokens
from orchestrator.web.tokens import Scope
from tests.web.conftest import make_account

START = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that a test sets."""

    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        """Returns the time."""
        return self.now

    def pass_time(self, **much):
        """Moves the clock forward."""
        self.now += timedelta(**much)


class Api:
    """An API client with an account's token."""

    def __init__(self, account, token):
        self.account, self.token = account, token
        self.client = Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=True)

    def send(self, method, path, json=None, **headers):
        """Sends a request and returns the answer. Header names have underscores in place of hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named = {"Authorization": f"Bearer {self.token}", **named}
        kind = {"content_type": "application/json", "data": json} if json is not None else {}
        call = getattr(self.client, method.lower())
        return call(f"/api/v1{path}", headers=named, **kind)

    def get(self, path, **headers):
        """Sends a GET request."""
        return self.send("GET", path, **headers)

    def post(self, path, json=None, **headers):
        """Sends a POST request."""
        return self.send("POST", path, json if json is not None else {}, **headers)

    def begin_upload(self, data, *, size=None, digest=None, **said):
        """Begins an upload of some bytes."""
        said = {"team": "Corner Shop", "task": "digits", "filename": "it.tar", **said}
        said["sha256"] = digest or hashlib.sha256(data).hexdigest()
        metadata = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in said.items())
        return self.send(
            "POST",
            "/uploads",
            Tus_Resumable="1.0.0",
            Upload_Length=str(len(data) if size is None else size),
            Upload_Metadata=metadata,
        )

    def upload_path(self, answer):
        """Returns the path of an upload below /api/v1."""
        return answer["Location"].partition("/api/v1")[2]

    def patch(self, path, offset, data):
        """Sends a part."""
        return self.client.generic(
            "PATCH",
            f"/api/v1{path}",
            data,
            "application/offset+octet-stream",
            headers={
                "Authorization": f"Bearer {self.token}",
                "Tus-Resumable": "1.0.0",
                "Upload-Offset": str(offset),
                "Content-Type": "application/offset+octet-stream",  # the client omits it for an empty part
                "Content-Length": str(len(data)),
            },
        )

    def head(self, path):
        """Requests the state of an upload with HEAD."""
        return self.send("HEAD", path, Tus_Resumable="1.0.0")

    def upload(self, data, **said):
        """Uploads some bytes in one part and returns the id of the arrival."""
        path = self.upload_path(self.begin_upload(data, **said))
        answer = self.patch(path, 0, data)
        assert answer.status_code == 204, answer.content
        return answer["Sparring-Arrival"]


def join_team(folder, account, team="Corner Shop", clock=seasons.now):
    """Makes a team whose only member is an account."""
    with seasons.administer(folder, "organizer", clock) as admin:
        admin.add_team(team, [PersonRecord(id=account.person, name=account.name)])


def make_api(name, scope=Scope.SUBMIT, *, now):
    """Returns an API client with a token of a new account."""
    account = make_account(name)
    return Api(account, tokens.issue(account, "tests", scope, now=now, lifetime=timedelta(days=90)))
