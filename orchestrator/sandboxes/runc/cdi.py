"""Reads what a container needs to use a GPU, from a description of the Container Device Interface (CDI).

A CDI description is a file on the host. It lists device files, libraries of the driver, variables, and hooks, which are
programs that the runtime runs to prepare the container's files. `nvidia-ctk cdi generate` writes the one for NVIDIA's
GPUs. The format is version 0.8 of https://github.com/cncf-tags/container-device-interface, and earlier ones.

Only root can write a description, so it is trusted like the driver. It is applied unchanged, with three exceptions:
every mount is read-only; a socket is not mounted, because a service of the host listens on it; and the container may
not create device files.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.domain.field_errors import first_field_error
from orchestrator.errors import BackendUnavailable

FOLDERS = (Path("/var/run/cdi"), Path("/etc/cdi"))
"""The folders of descriptions. A device in the first folder takes precedence, as the specification demands."""
KIND = "nvidia.com/gpu"
_REMEDY = "`nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml` writes it"
_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_DESCRIPTIONS_KEPT = 8
"""The size of a cache: each sandbox with a GPU needs the description, and reading it takes 60 ms."""
_READ_ONLY = ("rbind", "ro", "nosuid", "nodev", "rprivate")


class _Described(BaseModel):
    """Part of a description. A key that this module does not apply is an error, because it may be a restriction."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class _DeviceNode(_Described):
    path: str
    host_path: str = ""
    type: Literal["", "b", "c", "u", "p"] = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = "rw"
    uid: int | None = None
    gid: int | None = None


class _Mount(_Described):
    host_path: str
    container_path: str
    type: str = ""
    options: tuple[str, ...] = ()


class _Hook(_Described):
    hook_name: Literal["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = Field(default=None, gt=0)


class _Edits(_Described):
    env: tuple[str, ...] = ()
    device_nodes: tuple[_DeviceNode, ...] = ()
    mounts: tuple[_Mount, ...] = ()
    hooks: tuple[_Hook, ...] = ()


class _Device(_Described):
    name: str
    annotations: dict[str, str] = Field(default_factory=dict)
    container_edits: _Edits = _Edits()


class _Description(_Described):
    cdi_version: str
    kind: str
    annotations: dict[str, str] = Field(default_factory=dict)
    devices: tuple[_Device, ...] = ()
    container_edits: _Edits = _Edits()


@dataclass(frozen=True, slots=True)
class GpuEdits:
    """Additions to a container's config.json for a GPU, in the format of the OCI runtime specification.

    Args:
        variables: environment variables, each `NAME=value`.
        devices: entries of `linux.devices`, the device files.
        rules: entries of `linux.resources.devices`, which allow their use.
        mounts: entries of `mounts`.
        hooks: the object `hooks`: a list of hooks for each stage.
    """

    variables: tuple[str, ...] = ()
    devices: tuple[dict[str, Any], ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    hooks: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)


def read_gpu_edits(uuid: str, folders: Sequence[Path] = FOLDERS) -> GpuEdits:
    """Returns the additions for the GPU with this UUID.

    Raises:
        BackendUnavailable: no description names it, a description cannot be read or applied, or the host lacks a file
            that it names.
    """
    for folder in folders:
        matches = [
            (description.container_edits, device.container_edits)
            for description in _read_descriptions(folder)
            for device in description.devices
            if device.name == uuid
        ]
        if len(matches) > 1:
            raise BackendUnavailable(f"two descriptions in {folder} name the GPU {uuid}; remove one of them")
        if matches:
            return _to_oci(matches[0])
    searched = " or ".join(str(folder) for folder in folders)
    raise BackendUnavailable(f"no CDI description in {searched} names the GPU {uuid}; {_REMEDY}")


def _read_descriptions(folder: Path) -> Iterator[_Description]:
    """Yields the descriptions of GPUs in a folder, sorted by file name."""
    for path in sorted(folder.glob("*")):
        if path.suffix in _SUFFIXES:
            description = _read_description(path)
            if description is not None:
                yield description


def _read_description(path: Path) -> _Description | None:
    """Returns the description in a file; None if it describes something other than GPUs."""
    try:
        status = path.stat()
    except OSError as error:
        raise BackendUnavailable(f"the CDI description {path} cannot be read: {error}") from error
    return _parse_description(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=_DESCRIPTIONS_KEPT)
def _parse_description(path: Path, changed: int, size: int) -> _Description | None:
    del changed, size  # as keys of the cache, they distinguish the versions of the file
    from ruamel.yaml import YAML  # noqa: PLC0415  only sandboxes with a GPU need it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        content = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))  # JSON is YAML
    except (OSError, ValueError, YAMLError) as error:
        raise BackendUnavailable(f"the CDI description {path} cannot be read: {error}") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        return None
    try:
        return _Description.model_validate(content)
    except ValidationError as error:
        raise BackendUnavailable(
            f"the CDI description {path} has what the runc backend does not apply: "
            f"{first_field_error(error, _Description)}; use docker"
        ) from error


def _to_oci(parts: Sequence[_Edits]) -> GpuEdits:
    """Merges the edits of a description and of one of its devices."""
    nodes = [node for part in parts for node in part.device_nodes]
    hooks: dict[str, list[dict[str, Any]]] = {}
    for hook in (hook for part in parts for hook in part.hooks):
        entry = hook.model_dump(exclude={"hook_name"}, exclude_defaults=True, mode="json")
        hooks.setdefault(hook.hook_name, []).append(entry)
    try:
        devices = tuple(_device(node) for node in nodes)
        mounts = tuple(
            _mount(mount)
            for part in parts
            for mount in part.mounts
            if not stat.S_ISSOCK(Path(mount.host_path).stat().st_mode)
        )
    except OSError as error:
        raise BackendUnavailable(f"what the CDI description of a GPU names is not there: {error}; {_REMEDY}") from error
    return GpuEdits(
        variables=tuple(variable for part in parts for variable in part.env),
        devices=devices,
        rules=tuple(
            {
                "allow": True,
                **{key: device[key] for key in ("type", "major", "minor")},
                "access": "".join(letter for letter in node.permissions if letter in "rw"),
            }
            for node, device in zip(nodes, devices, strict=True)
        ),
        mounts=mounts,
        hooks=hooks,
    )


def _device(node: _DeviceNode) -> dict[str, Any]:
    """Returns a device file. It copies what the description leaves open from the host's file. Raises OSError."""
    status = Path(node.host_path or node.path).stat()
    kind = "b" if stat.S_ISBLK(status.st_mode) else "c"
    return {
        "path": node.path,
        "type": node.type or kind,
        "major": node.major or os.major(status.st_rdev),
        "minor": node.minor if node.major else os.minor(status.st_rdev),
        "fileMode": stat.S_IMODE(status.st_mode) if node.file_mode is None else node.file_mode,
        "uid": status.st_uid if node.uid is None else node.uid,
        "gid": status.st_gid if node.gid is None else node.gid,
    }


def _mount(mount: _Mount) -> dict[str, Any]:
    noexec = [option for option in mount.options if option == "noexec"]
    return {
        "destination": mount.container_path,
        "type": "bind",
        "source": mount.host_path,
        "options": [*_READ_ONLY, *noexec],
    }
