"""Has the engine tag and push an image to a registry, with credentials for this one request."""

import base64
import json
import re
import time
from collections.abc import Mapping
from typing import Any, Protocol

from orchestrator.domain.images import is_image_reference
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SandboxLost, UsageError
from orchestrator.sandboxes.docker.engine_http import (
    EngineRefusal,
    RequestCancelled,
    deadline_objection,
    engine_request,
    progress_messages,
)

TIMEOUT_SECONDS = 3600.0
_TAG_TIMEOUT_SECONDS = 60.0
_DENIED = re.compile(r"denied|unauthorized|authentication required|no basic auth|insufficient_scope", re.IGNORECASE)
_NO_TLS = re.compile(r"HTTP response to HTTPS client|x509|certificate|tls:", re.IGNORECASE)


class PushEngine(Protocol):
    """The engine's calls that pushing uses. Each raises SandboxLost if the engine fails."""

    path: str

    def version(self) -> str:
        """Returns the version of the engine's API that the client uses."""
        ...

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of an image, None if it has no such image."""
        ...


def push_image(engine: PushEngine, image: str, name: str, login: tuple[str, str] | None) -> None:
    """Tags and pushes an image; see `ImageStore.push`."""
    repository, _, tag = name.rpartition(":")
    host = name.partition("/")[0]
    if not is_image_reference(image) or not is_image_reference(name) or not repository or "/" in tag:
        raise UsageError(f"{printable(image)} cannot be pushed as {printable(name)}; use names like host/team/entry:1")
    if engine.image(image) is None:
        raise UsageError(f"the engine has no image {printable(image)}; build it, or bring it with `docker load`")
    images_path = f"/v{engine.version()}/images"
    try:
        _tag_image(engine, f"{images_path}/{image}/tag", {"repo": repository, "tag": tag})
        _push_tag(engine, f"{images_path}/{repository}/push", tag, login)
    except RequestCancelled as error:
        raise SandboxLost(f"pushing {name}: {error}") from error
    except EngineRefusal as error:
        raise _push_error(host, name, str(error), logged_in=login is not None) from error


def _tag_image(engine: PushEngine, path: str, query: Mapping[str, str]) -> None:
    objection = deadline_objection(time.monotonic() + _TAG_TIMEOUT_SECONDS, "naming it took too long")
    with engine_request(engine.path, "POST", path, query, None, objection) as answer:
        answer.read()


def _push_tag(engine: PushEngine, path: str, tag: str, login: tuple[str, str] | None) -> None:
    """Pushes one tag. Raises EngineRefusal if the engine or the registry refuses."""
    credentials = {} if login is None else {"username": login[0], "password": login[1]}
    headers = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(credentials).encode()).decode()}
    objection = deadline_objection(time.monotonic() + TIMEOUT_SECONDS, f"it took more than {TIMEOUT_SECONDS:g} s")
    with engine_request(engine.path, "POST", path, {"tag": tag}, None, objection, headers) as answer:
        for _ in progress_messages(answer):
            pass


def _push_error(host: str, name: str, message: str, *, logged_in: bool) -> Exception:
    """Returns the error for a refusal: UsageError for a denied login, otherwise BackendUnavailable with a remedy."""
    if _DENIED.search(message):
        client = "with the credentials that it was given" if logged_in else "without credentials"
        return UsageError(
            f"{host} does not take {name} {client}: {message}; run `docker login {host}` as a user who may push there"
        )
    if _NO_TLS.search(message):
        return BackendUnavailable(
            f"the engine does not trust {host}: {message}; put its authority's certificate into "
            f"/etc/docker/certs.d/{host}, or, if it speaks plain HTTP, the host into `insecure-registries` of the "
            "engine's daemon.json"
        )
    return BackendUnavailable(f"pushing {name}: {message}; see that this machine reaches {host}, and run it again")
