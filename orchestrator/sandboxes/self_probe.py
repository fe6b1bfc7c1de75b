"""Measures a sandbox on this machine from inside: a small program reports what it sees and exceeds the limits."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import SparringError
from orchestrator.sandboxes.base import Check, CheckStatus, Ending, Exit, Image, Sandbox, SandboxSpec

PROBE_IMAGE_PATTERN = "sparring/*"
"""The images in which the probe program may run."""
PREFERRED_IMAGE = "sparring/base:cpu"
"""The image in which the probe program runs if there is one."""
PROBE_LIMITS = replace(Limits(), memory=64 * 1024**2, pids=32, tmp=1024**2, shm=1024**2, files=64)
WAIT_COMMAND = ("python3", "-I", "-S", "-c", "import sys; sys.stdin.read()")
"""A command that does nothing until it is stopped."""
_TIMEOUT_SECONDS = 30.0
_MAX_OUTPUT_BYTES = 64 * 1024

_PROBE_PROGRAM = r"""
import json, os, sys, time
seen = {}
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
for name in ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"):
    seen[name] = status.get(name, "").split()[:1]
seen["interfaces"] = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
def writes(path):
    try:
        with open(path, "w") as file:
            file.write("x")
        os.unlink(path)
        return True
    except OSError:
        return False
seen["root"] = [path for path in ("/sparring-probe", "/etc/sparring-probe", "/var/tmp/sparring-probe") if writes(path)]
try:
    with open("/tmp/fill", "wb") as file:
        for _ in range(64):
            file.write(bytes(65536))
            file.flush()
    seen["tmp"] = os.path.getsize("/tmp/fill")
except OSError:
    seen["tmp"] = os.path.getsize("/tmp/fill")
os.unlink("/tmp/fill") if os.path.exists("/tmp/fill") else None
children = []
for _ in range(200):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(60)
        os._exit(0)
    children.append(child)
seen["forks"] = len(children)
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
print(json.dumps(seen), flush=True)
hoard = []
for _ in range(256):
    hoard.append(bytearray(b"x" * 1048576))
"""


def choose_image(images: Sequence[Mapping[str, Any]]) -> Image | None:
    """Returns the first of some images by name, for the probe; None if there is none."""
    candidates = sorted((tag, image["Id"]) for image in images for tag in image.get("RepoTags") or [])
    if not candidates:
        return None
    return Image(digest=candidates[0][1], name=candidates[0][0])


def probe_spec(image: Image) -> SandboxSpec:
    """Returns the specification of a sandbox that runs the probe program; the image needs python3."""
    return SandboxSpec(
        replace(image, command=("python3", "-I", "-S", "-c", _PROBE_PROGRAM)),
        SandboxPolicy(PROBE_LIMITS),
        run="doctor",
        job="probe",
    )


def run_probe(backend: str, start: Callable[[], Sandbox] | None) -> list[Check]:
    """Runs the probe program, if there is an image for it, and returns its findings; it never raises."""
    if start is None:
        remedy = "sparring image build base"
        return [Check(f"{backend}: sandbox", CheckStatus.ABSENT, "no image of ours to look from inside of", remedy)]
    try:
        sandbox = start()
        try:
            output = read_output(sandbox)
        finally:
            end = sandbox.stop()
    except SparringError as error:
        return [Check(f"{backend}: sandbox", CheckStatus.FAIL, printable(str(error)), "see the message")]
    try:
        seen = json.loads(output)
    except ValueError:
        seen = None
    if not isinstance(seen, dict):
        detail = f"the probe gave no answer: {last_line(end)}"
        return [Check(f"{backend}: sandbox", CheckStatus.FAIL, detail, "look at the image and its runtime")]
    checks = _checks_from_probe(seen, end)
    return [replace(check, name=f"{backend}: {check.name}") for check in checks]


def last_line(end: Exit) -> str:
    """Returns the last line of a player's stderr, printable, or how it ended if it wrote nothing."""
    return printable((end.stderr.decode("utf-8", "replace").strip().splitlines() or [end.ending.value])[-1])


def read_output(sandbox: Sandbox, seconds: float = _TIMEOUT_SECONDS, most: int = _MAX_OUTPUT_BYTES) -> bytes:
    """Returns a player's output until it ends or `seconds` pass; stops after the piece that reaches `most` bytes."""
    output = bytearray()
    deadline = time.monotonic() + seconds
    while len(output) < most:
        data = sandbox.receive(deadline)
        if not data:
            break
        output += data
    return bytes(output)


def _checks_from_probe(seen: Mapping[str, Any], end: Exit) -> list[Check]:
    interfaces = seen.get("interfaces")
    writable = seen.get("root")
    filled = seen.get("tmp")
    forks = seen.get("forks")
    return [
        _check("network", interfaces == ["lo"], f"interfaces inside: {_list_text(interfaces)}"),
        _check("read-only root", writable == [], f"could write: {_list_text(writable)}"),
        _check("user", seen.get("Uid") not in (["0"], []), f"uid inside: {_list_text(seen.get('Uid'))}"),
        _check(
            "capabilities",
            seen.get("CapEff") == seen.get("CapBnd") == ["0" * 16],
            f"effective: {_list_text(seen.get('CapEff'))}",
        ),
        _check(
            "no new privileges", seen.get("NoNewPrivs") == ["1"], f"NoNewPrivs: {_list_text(seen.get('NoNewPrivs'))}"
        ),
        _check("seccomp", seen.get("Seccomp") == ["2"], f"Seccomp: {_list_text(seen.get('Seccomp'))} (2 is a filter)"),
        _check(
            "tmp limit",
            filled is not None and filled <= PROBE_LIMITS.tmp,
            f"wrote {filled} of {PROBE_LIMITS.tmp} bytes allowed",
        ),
        _check(
            "pids limit",
            forks is not None and 0 < forks < PROBE_LIMITS.pids,
            f"{forks} children, {PROBE_LIMITS.pids} pids allowed",
        ),
        _check(
            "memory limit",
            end.ending is Ending.OUT_OF_MEMORY,
            f"asked for 256 MiB of {PROBE_LIMITS.memory // 1024**2} MiB: {end.ending}",
        ),
    ]


def _list_text(values: object) -> str:
    """Returns a value of the probe as text."""
    return (", ".join(map(str, values)) if isinstance(values, list) else str(values or "")) or "nothing"


def _check(name: str, passed: bool, detail: str) -> Check:
    remedy = "" if passed else "do not play strangers' submissions here; `sparring explain sandbox` says why"
    return Check(name, CheckStatus.OK if passed else CheckStatus.FAIL, printable(detail), remedy)
