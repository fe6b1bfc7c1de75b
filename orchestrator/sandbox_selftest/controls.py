"""The controls that a program may name: fields of SandboxPolicy and Limits, and controls without a field."""

import re
from collections.abc import Mapping

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits

POLICY_FIELDS = frozenset({*SandboxPolicy.__dataclass_fields__, *Limits.__dataclass_fields__} - {"limits", "runtime"})
CODE_CONTROLS: Mapping[str, str] = {
    "mounts": "no policy can add one: a sandbox sees its image, /tmp, /dev/shm and the engine's masked /proc and /sys",
    "inodes of /tmp": "a fixed limit on the number of files",
    "process namespace": "a sandbox sees and signals only its own processes",
    "end of the PID namespace": "when the first process of a sandbox ends, the kernel kills all others",
    "kill by SIGKILL": "a player cannot catch the signal that ends it",
    "streams are shut before the kill": "unread output of a player cannot block its end",
    "bounded reading": "the orchestrator reads a player's output only while it waits for a reply",
    "payload_bytes": "the most bytes of one reply, which the player is told",
    "payload sizes": "an array has the length that its header announces, or the reply is a fault",
    "session": "each question gets one reply, with its id and type",
    "a fresh sandbox after each fault": "a player that broke the protocol gets no further question",
    "a fresh sandbox for each job": "no job reuses a sandbox of another job",
    "admission": "an image that requires more than a sandbox allows is refused by name, with all reasons at once",
    "filtered environment": "an image's variables of the loader, of proxies, GPUs and the engine are dropped",
    "no unpacking": "members of an archive are read by name, and never written to their own paths",
    "bounded decoding": "a picture's size is read before its pixels, and refused above a limit",
    "pixels only": "of a picture's bytes only the pixels are kept",
    "regular files only": "readers of pictures refuse links and devices",
    "four picture formats": "PNG, JPEG, BMP and PPM are decoded, whatever the file's name",
    "no pickles": "arrays of objects are refused before they are parsed",
    "printable text": "a player's text is shown with control characters escaped, in pages also with markup escaped",
}
"""Controls in our code or the kernel, which a weaker policy cannot remove."""


def find_controls(control: str) -> frozenset[str]:
    """Returns the fields and keys of `CODE_CONTROLS` that a control's description contains; may be empty."""
    fields = {field for field in POLICY_FIELDS if re.search(rf"\b{field}\b", control)}
    return frozenset(fields | {name for name in CODE_CONTROLS if name in control})
