"""Makes a new configuration with only what a player needs, for an image that is loaded.

It leaves out everything else: volumes, health checks, triggers, labels, the user, the history and names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain import environment
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import Problem, Rejected
from orchestrator.sandboxes.base import ImageLayer

MAX_LAYERS = 120
"""An engine's file system can stack at most 125 layers."""
REMEDY = "build it with an ordinary Dockerfile, and pack it again"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLATFORM = re.compile(r"[a-z0-9_]{1,20}")


def normalise_layered_config(config: Mapping[str, Any], layers: Sequence[ImageLayer]) -> bytes:
    """Returns the new configuration of an image with these layers. Raises Rejected if it names others."""
    text = normalise_config(config)
    if layer_digests(config) != [layer.diff_id for layer in layers]:
        raise Rejected("image", [Problem("layers", "not those that its configuration names", REMEDY)])
    return text


def normalise_config(config: Mapping[str, Any]) -> bytes:
    """See `ImageStore.normalise_config`."""
    problems: list[Problem] = []
    inner = config.get("config")
    given = inner if isinstance(inner, Mapping) else {}
    settings: dict[str, Any] = {}
    for name in ("Entrypoint", "Cmd", "Env"):
        values = given.get(name)
        if values is None:
            continue
        if not isinstance(values, list) or not all(isinstance(each, str) and "\0" not in each for each in values):
            problems.append(Problem(name, "not a list of texts", REMEDY))
        else:
            settings[name] = (
                [f"{key}={value}" for key, value in environment.allowed_variables(values).items()]
                if name == "Env"
                else values
            )
    folder = given.get("WorkingDir") or ""
    if not isinstance(folder, str):
        problems.append(Problem("WorkingDir", "not a text", REMEDY))
    elif folder:
        settings["WorkingDir"] = folder
    platform = {name: config.get(name) for name in ("architecture", "os")}
    if not all(isinstance(value, str) and _PLATFORM.fullmatch(value) for value in platform.values()):
        problems.append(Problem("platform", "no architecture or no system", REMEDY))
    if problems:
        raise Rejected("image configuration", problems)
    rootfs = {"type": "layers", "diff_ids": layer_digests(config)}
    return canonical_json({"config": settings, "rootfs": rootfs, **platform}).encode()


def layer_digests(config: Mapping[str, Any]) -> list[str]:
    """Returns the digests of an image's layers, the lowest first. Raises Rejected if one is malformed."""
    root = config.get("rootfs")
    digests = root.get("diff_ids") if isinstance(root, Mapping) else None
    if not isinstance(digests, list) or not 1 <= len(digests) <= MAX_LAYERS:
        description = f"{len(digests)} layers" if isinstance(digests, list) else "no list of layers"
        raise Rejected("image configuration", [Problem("rootfs", f"{description}; 1 to {MAX_LAYERS} are read", REMEDY)])
    if not all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in digests):
        raise Rejected("image configuration", [Problem("rootfs", "a layer that is not named by its SHA-256", REMEDY)])
    return digests
