"""The check of an image's configuration, and the settings that are taken from it.

A configuration is hostile input: VOLUME gives writable host disk in spite of a read-only root, HEALTHCHECK runs code
beside the player, ENV has reached hooks on the host, WORKDIR has led out of the container (CVE-2024-21626). So only
entrypoint, command, working directory and a filtered environment are taken from it; the rest is overridden, or refused
by name. The messages are the same for configurations from an engine and from a registry.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain import environment
from orchestrator.domain.text import printable
from orchestrator.errors import Problem

MAX_IMAGE_BYTES = 20 * 1024**3
"""The largest image, in bytes. PyTorch with CUDA has 6 to 10 GiB."""
SPARRING_LABELS = ("sparring.run", "sparring.job", "sparring.owner")
"""The labels by which the orchestrator finds its own containers."""
_MAX_WORDS = 256
_MAX_CHARACTERS = 64 * 1024
_REFERENCE = re.compile(r"sha256:[0-9a-f]{64}|[A-Za-z0-9][A-Za-z0-9_-]*(?:[./:@][A-Za-z0-9_-]+)*")
_FORBIDDEN_FOLDERS = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """The settings taken from an image: its command, its working directory, and its filtered environment."""

    command: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    unset_variables: tuple[str, ...] = ()
    """The names of the image's variables that have to be unset."""


def is_image_id(text: str) -> bool:
    """Returns whether this is an image's id, or a name with a digest."""
    return re.fullmatch(r"(.+@)?sha256:[0-9a-f]{64}", text, re.DOTALL) is not None


def is_image_reference(text: str) -> bool:
    """Returns whether this can be an image's name or id; nothing else goes into a request to the engine."""
    return len(text) <= 255 and _REFERENCE.fullmatch(text) is not None  # noqa: PLR2004  the engine's own limit


def read_image_config(
    image: Mapping[str, Any], architecture: str = "", max_bytes: int | None = None
) -> tuple[ImageConfig, list[Problem]]:
    """Returns the settings that are used of an image, and every reason to refuse it.

    `image` is the output of `docker image inspect`. `architecture` is that of the engine, in the spelling of images;
    empty to skip the comparison. `max_bytes` is the largest size, None for `MAX_IMAGE_BYTES`.
    """
    config = image.get("Config") or {}
    command = _string_list(config.get("Entrypoint")) + _string_list(config.get("Cmd"))
    folder = config.get("WorkingDir") or "/"
    variables = _string_list(config.get("Env"))
    problems = [
        *_config_problems(config),
        *_platform_problems(image, architecture),
        *_start_problems(command, folder, variables),
        *_size_problems(image.get("Size"), MAX_IMAGE_BYTES if max_bytes is None else max_bytes),
    ]
    allowed, dropped = environment.allowed_variables(variables), environment.removed_variables(variables)
    return ImageConfig(command, folder, allowed, dropped), problems


def _config_problems(config: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if config.get("Volumes"):
        names = ", ".join(printable(str(name), 60) for name in list(config["Volumes"])[:5])
        problems.append(
            Problem("VOLUME", f"gives writable disk outside the sandbox ({names})", "remove it; write to /tmp")
        )
    test = (config.get("Healthcheck") or {}).get("Test") or []
    if test and test != ["NONE"]:
        problems.append(Problem("HEALTHCHECK", "runs code beside the player", "remove it, or write HEALTHCHECK NONE"))
    if config.get("OnBuild"):
        problems.append(Problem("ONBUILD", "changes images built from this one", "remove it"))
    own_labels = sorted(set(SPARRING_LABELS) & set(config.get("Labels") or {}))
    if own_labels:
        problems.append(
            Problem(
                "LABEL",
                f"{', '.join(own_labels)} is a label by which the orchestrator finds its own containers",
                "remove it",
            )
        )
    return problems


def _platform_problems(image: Mapping[str, Any], architecture: str) -> list[Problem]:
    system = image.get("Os") or "linux"
    if system != "linux":
        return [Problem("platform", f"made for {printable(str(system), 40)}", "build it for linux")]
    made_for = image.get("Architecture") or ""
    if architecture and made_for and made_for != architecture:
        problem = f"made for {printable(str(made_for), 40)}, this engine runs {architecture}"
        return [Problem("platform", problem, f"build it with --platform linux/{architecture}")]
    return []


def _start_problems(command: tuple[str, ...], folder: str, variables: Sequence[str]) -> list[Problem]:
    problems = []
    if not command or not command[0]:
        problems.append(Problem("ENTRYPOINT", "neither ENTRYPOINT nor CMD", "say how to start the player"))
    if len(command) > _MAX_WORDS or sum(map(len, command)) > _MAX_CHARACTERS:
        problems.append(
            Problem("ENTRYPOINT", f"more than {_MAX_WORDS} words or {_MAX_CHARACTERS} characters", "shorten it")
        )
    if any("\0" in word for word in command):
        problems.append(Problem("ENTRYPOINT", "a NUL character, which no argument can contain", "leave it out"))
    if len(variables) > _MAX_WORDS or sum(map(len, variables)) > _MAX_CHARACTERS:
        problems.append(
            Problem("ENV", f"more than {_MAX_WORDS} variables or {_MAX_CHARACTERS} characters", "set fewer")
        )
    if any(
        not name or "\0" in entry or not equals for entry in variables for name, equals, _ in [entry.partition("=")]
    ):
        problems.append(Problem("ENV", "an entry that is not NAME=value", "build the image with a Dockerfile"))
    if not _is_plain_folder(folder):
        problem = f"{printable(folder, 80)!r} is not a plain absolute path outside {', '.join(_FORBIDDEN_FOLDERS)}"
        problems.append(Problem("WORKDIR", problem, "use a folder like /player"))
    return problems


def _is_plain_folder(folder: str) -> bool:
    path = posixpath.normpath(folder)
    plain = folder.startswith("/") and folder.isprintable() and folder in {path, f"{path}/"}
    inside = any(f"{path}/".startswith(f"{forbidden}/") for forbidden in _FORBIDDEN_FOLDERS)
    return plain and not inside and not folder.startswith("//")


def oversized(size: str, largest: int = MAX_IMAGE_BYTES) -> Problem:
    """Returns the problem of an image that is too large. `size` is its number of bytes."""
    remedy = "leave out what playing does not need; each machine that plays keeps it whole"
    return Problem("size", f"{size} bytes in its layers, at most {largest}", remedy)


def _size_problems(size: Any, largest: int) -> list[Problem]:
    return [oversized(str(size), largest)] if isinstance(size, int) and size > largest else []


def _string_list(value: Any) -> tuple[str, ...]:
    """Returns a list of strings as a tuple. Any other value is treated as null: an engine gives only lists or null."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return ()
    return tuple(value)
