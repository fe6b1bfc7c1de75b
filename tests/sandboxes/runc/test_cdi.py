"""What a container needs to use a GPU, from descriptions as NVIDIA's program writes them."""

import io
import json
import os
import socket
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from orchestrator.errors import BackendUnavailable
from orchestrator.sandboxes.runc.cdi import read_gpu_edits

UUID = "GPU-6e2d3c1a-0000-4b52-8d6f-1234567890ab"
OTHER = "GPU-00000000-0000-0000-0000-000000000000"
NULL, ZERO = Path("/dev/null").stat(), Path("/dev/zero").stat()


def as_yaml(content: dict) -> str:
    """Returns a description as a YAML file."""
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump(content, text)
    return text.getvalue()


def description(library: Path) -> dict:
    """Returns a description of two GPUs in the shape that `nvidia-ctk cdi generate` gives it."""
    hook = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}
    return {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": UUID, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/zero"}]}},
            {"name": OTHER, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1", "hostPath": "/dev/full"}]}},
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": "/dev/null"}],
            "mounts": [
                {
                    "hostPath": str(library),
                    "containerPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159",
                    "options": ["rw", "nosuid", "nodev", "rbind", "rprivate"],
                }
            ],
            "hooks": [
                {**hook, "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "a::/b"], "env": ["DEBUG=false"]},
                {**hook, "args": ["nvidia-cdi-hook", "update-ldcache"], "timeout": 10},
            ],
        },
    }


@pytest.fixture
def library(tmp_path) -> Path:
    """A file in place of a library of the driver."""
    path = tmp_path / "libcuda.so"
    path.write_bytes(b"library")
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder for descriptions."""
    path = tmp_path / "cdi"
    path.mkdir()
    return path


def test_a_gpu_is_given_as_its_description_says(folder, library) -> None:
    """What belongs to all GPUs comes first; the other GPU's device file is not there."""
    (folder / "nvidia.yaml").write_text(as_yaml(description(library)))
    edits = read_gpu_edits(UUID, [folder])
    assert edits.variables == ("NVIDIA_VISIBLE_DEVICES=void",)
    null, zero = edits.devices
    assert null == {
        "path": "/dev/null",
        "type": "c",
        "major": os.major(NULL.st_rdev),
        "minor": os.minor(NULL.st_rdev),
        "fileMode": NULL.st_mode & 0o7777,
        "uid": NULL.st_uid,
        "gid": NULL.st_gid,
    }
    assert (zero["path"], zero["minor"]) == ("/dev/nvidia0", os.minor(ZERO.st_rdev))
    assert edits.rules == tuple(
        {"allow": True, "type": "c", "major": device["major"], "minor": device["minor"], "access": "rw"}
        for device in edits.devices
    )
    assert dict(edits.hooks) == {
        "createContainer": [
            {
                "path": "/usr/bin/nvidia-cdi-hook",
                "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "a::/b"],
                "env": ["DEBUG=false"],
            },
            {"path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "update-ldcache"], "timeout": 10},
        ]
    }


def test_whatever_is_mounted_is_read_only(folder, library) -> None:
    """Also where the description says `rw`: a library that a player could change would be the next player's."""
    (folder / "nvidia.yaml").write_text(as_yaml(description(library)))
    (mount,) = read_gpu_edits(UUID, [folder]).mounts
    assert mount["source"] == str(library)
    assert mount["destination"] == "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159"
    assert {"rbind", "ro", "nosuid", "nodev"} <= set(mount["options"])
    assert "rw" not in mount["options"]


def test_no_socket_is_mounted(folder, library, tmp_path) -> None:
    """A service of the host listens behind it, such as nvidia-persistenced."""
    content = description(library)
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        content["containerEdits"]["mounts"].append({"hostPath": str(path), "containerPath": "/run/socket"})
        (folder / "nvidia.json").write_text(json.dumps(content))
        assert [mount["source"] for mount in read_gpu_edits(UUID, [folder]).mounts] == [str(library)]


def test_no_device_file_may_be_made(folder, library) -> None:
    """Of the permissions `rwm` the last is left out, and what the description says of a device file counts."""
    content = description(library)
    node = {"path": "/dev/nvidia0", "hostPath": "/dev/zero", "permissions": "rwm", "fileMode": 0o600, "uid": 5}
    content["devices"][0]["containerEdits"]["deviceNodes"] = [node | {"type": "c", "major": 195, "minor": 0}]
    (folder / "nvidia.yaml").write_text(as_yaml(content))
    edits = read_gpu_edits(UUID, [folder])
    assert edits.rules[1] == {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}
    assert (edits.devices[1]["fileMode"], edits.devices[1]["uid"]) == (0o600, 5)


def test_the_first_folder_takes_precedence(folder, library, tmp_path) -> None:
    """As the specification says of /var/run/cdi, which the toolkit's service writes at every start of the machine."""
    content = description(library)
    (folder / "nvidia.yaml").write_text(as_yaml(content))
    newer = tmp_path / "run"
    newer.mkdir()
    content["containerEdits"]["env"] = ["NVIDIA_VISIBLE_DEVICES=newer"]
    (newer / "nvidia.yaml").write_text(as_yaml(content))
    assert read_gpu_edits(UUID, [newer, folder]).variables == ("NVIDIA_VISIBLE_DEVICES=newer",)
    assert read_gpu_edits(UUID, [tmp_path / "missing", folder]).variables == ("NVIDIA_VISIBLE_DEVICES=void",)


def test_descriptions_of_other_things_are_passed_over(folder, library) -> None:
    """Other vendors' descriptions may have keys that a later version of the format has."""
    (folder / "net.json").write_text(json.dumps({"cdiVersion": "1.1.0", "kind": "vendor.com/net", "new": 1}))
    (folder / "notes.txt").write_text("{")
    (folder / "nvidia.yaml").write_text(as_yaml(description(library)))
    assert read_gpu_edits(UUID, [folder]).devices


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace(UUID, "gpu0"),
            r"no CDI description in .*/cdi names the GPU GPU-6e2d.*nvidia-ctk cdi",
        ),
        (lambda text: text + "}", r"cdi/nvidia\.yaml cannot be read"),
        (lambda text: text.replace("mounts:", "netDevices:"), r"nvidia\.yaml has what .* does not apply: .*netDevices"),
        (lambda text: text.replace("/dev/zero", "/dev/nowhere"), r"is not there: .*/dev/nowhere"),
        (lambda text: text.replace("libcuda.so\n", "gone.so\n"), r"is not there: .*gone\.so"),
    ],
    ids=["unknown", "broken", "key", "device", "library"],
)
def test_what_cannot_be_applied_is_refused(folder, library, change, message) -> None:
    """Each message names the file or the GPU, and the remedy."""
    (folder / "nvidia.yaml").write_text(change(as_yaml(description(library))))
    with pytest.raises(BackendUnavailable, match=message):
        read_gpu_edits(UUID, [folder])


def test_two_descriptions_of_a_gpu_are_refused(folder, library) -> None:
    """Nobody can say which of them is right."""
    for name in ("a.yaml", "b.json"):
        (folder / name).write_text(json.dumps(description(library)))
    with pytest.raises(BackendUnavailable, match=f"two descriptions in {folder} name the GPU"):
        read_gpu_edits(UUID, [folder])
