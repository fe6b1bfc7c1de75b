"""Credentials for image registries, from docker's config.json, as `docker login` and pull secrets write it.

The file is in $DOCKER_CONFIG or ~/.docker. In a cluster the pull secret is mounted there as `config.json`. User names
with passwords are read, and programs that keep them (`credHelpers`, `credsStore`); identity tokens are not supported.
"""

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.domain.field_errors import dotted_path, field_errors
from orchestrator.errors import UsageError
from orchestrator.oci.references import DOCKER_HUB

_HUB_KEY = "index.docker.io"
_HELPER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HELPER_SECONDS = 30
_TOKEN_USER = "<token>"  # noqa: S105  the user name of a helper that has a token and no password


class _LoginModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    auth: str = Field(default="", repr=False)
    username: str = ""
    password: str = Field(default="", repr=False)

    def login(self) -> tuple[str, str] | None:
        if self.auth:
            user, colon, password = base64.b64decode(self.auth, validate=True).decode().rstrip("\0").partition(":")
            return (user, password) if colon else None
        return (self.username, self.password) if self.username and self.password else None


class _ConfigFileModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    auths: dict[str, _LoginModel] = {}
    helpers: Annotated[dict[str, str], Field(alias="credHelpers")] = {}
    store: Annotated[str, Field(alias="credsStore")] = ""


@dataclass(frozen=True)
class Credentials:
    """User names and passwords by registry. They are never shown."""

    path: Path | None = None
    """The file from which they were read; None if there is none."""
    _logins: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    _helpers: Mapping[str, str] = field(default_factory=dict)
    _store: str = ""

    @classmethod
    def from_docker_config(cls, environment: Mapping[str, str] = os.environ) -> "Credentials":
        """Returns the credentials in the operator's file; empty if there is no file.

        Raises:
            UsageError: the file cannot be read, or is not a config.json of docker.
        """
        folder = environment.get("DOCKER_CONFIG") or Path(environment.get("HOME") or "/nonexistent", ".docker")
        path = Path(folder, "config.json")
        try:
            config_file = _ConfigFileModel.model_validate(json.loads(path.read_bytes()))
            logins = {
                _registry_key(name): login for name, entry in config_file.auths.items() if (login := entry.login())
            }
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}; make it readable for this user") from error
        except ValidationError as error:
            places = ", ".join(dotted_path(each.path) for each in field_errors(error)[:3])
            raise UsageError(
                f"{path} is not docker's config.json (look at {places}); `docker login` writes it"
            ) from None
        except (ValueError, RecursionError, binascii.Error):
            raise UsageError(f"{path} is not docker's config.json; `docker login` writes it") from None
        return cls(
            path,
            logins,
            {_registry_key(name): helper for name, helper in config_file.helpers.items()},
            config_file.store,
        )

    def login_for(self, host: str, repository: str) -> tuple[str, str] | None:
        """Returns name and password for a repository, by the entry with the longest path; None to ask without them.

        Raises:
            UsageError: the program that keeps the credentials fails.
        """
        host = _HUB_KEY if host == DOCKER_HUB else host
        parts = [host, *repository.split("/")]
        for length in range(len(parts), 0, -1):
            if login := self._logins.get("/".join(parts[:length])):
                return login
        helper = self._helpers.get(host) or self._store
        return _ask_helper(helper, "https://index.docker.io/v1/" if host == _HUB_KEY else host) if helper else None


def _registry_key(name: str) -> str:
    """Returns the key by which a registry is looked up: `index.docker.io` for `https://index.docker.io/v1/`."""
    host = re.sub(r"/v[12]/?$", "", re.sub(r"^https?://", "", name)).rstrip("/")
    return _HUB_KEY if host in {DOCKER_HUB, f"registry-1.{DOCKER_HUB}"} else host


def _ask_helper(helper: str, server: str) -> tuple[str, str] | None:
    """Returns the credentials from one of docker's helper programs, or None if it has none and so fails."""
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise UsageError(
            "docker's config.json names a credential helper whose name is not valid; correct credHelpers there"
        )
    try:
        done = subprocess.run(
            [program, "get"], input=server.encode(), capture_output=True, timeout=_HELPER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = "cannot be run" if isinstance(error, OSError) else f"did not answer in {_HELPER_SECONDS} s"
        raise UsageError(
            f"docker's config.json names {program}, which {problem}; install it, or remove it there"
        ) from None
    if done.returncode:
        return None
    try:
        document: Any = json.loads(done.stdout)
        user, password = str(document["Username"]), str(document["Secret"])
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{program} did not answer as a credential helper does; update it") from None
    return None if user == _TOKEN_USER else (user, password)
