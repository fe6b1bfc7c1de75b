"""The controls that a program may name: fields of SandboxPolicy and Limits, and what no field can take away."""

import re
from collections.abc import Mapping

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits

POLICY_FIELDS = frozenset({*SandboxPolicy.__dataclass_fields__, *Limits.__dataclass_fields__} - {"limits", "runtime"})
CODE_CONTROLS: Mapping[str, str] = {
    "mounts": "no policy can add one: a sandbox sees its image, /tmp, /dev/shm and the engine's masked /proc and /sys",
    "inodes of /tmp": "how many files /tmp holds, a fixed number of the translation",
    "process namespace": "a sandbox sees and signals its own processes only",
    "end of the PID namespace": "with its first process, the kernel ends all that a sandbox started",
    "kill by SIGKILL": "a player is asked nothing when it is ended",
    "streams are shut before the kill": "a player whose output waits to be read cannot hold up its end",
    "bounded reading": "what a player writes is read as far as it was asked for",
    "payload_bytes": "the most bytes of one reply, told to the player",
    "payload sizes": "an array is as long as its header says, or the reply is a fault",
    "session": "what may be said next: one reply for one question, with its id and its type",
    "a fresh sandbox after each fault": "nobody goes on with a player that broke the protocol",
    "a fresh sandbox for each job": "nobody plays in a sandbox that somebody played in",
    "admission": "an image that asks for more than a sandbox gives is refused by name, with all reasons at once",
    "filtered environment": "of an image's variables, those of the loader, of proxies, GPUs and the engine are dropped",
    "no unpacking": "members of an archive are read by name, and never written to a path of their own",
    "bounded decoding": "a picture's size is read before its pixels are, and refused above a limit",
    "pixels only": "of a picture its pixels are kept, and nothing else of its bytes",
    "regular files only": "links and devices are refused where pictures are read",
    "four picture formats": "PNG, JPEG, BMP and PPM are decoded, whatever a file is called",
    "no pickles": "arrays of objects are refused before anything in them is read",
    "printable text": "a player's text is shown with its control characters escaped, in pages with its markup escaped",
}
"""What is code of ours or of the kernel's, and cannot be taken away by a weaker policy."""


def find_controls(control: str) -> frozenset[str]:
    """Returns the fields and words that a control's description names; empty when it names none."""
    fields = {field for field in POLICY_FIELDS if re.search(rf"\b{field}\b", control)}
    return frozenset(fields | {word for word in CODE_CONTROLS if word in control})
