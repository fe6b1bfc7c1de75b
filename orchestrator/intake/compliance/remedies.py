"""Chooses the remedy for a failed step by the fault's code and by the player's standard error."""

import re

from orchestrator.errors import PlayerReported, ProtocolFault, SubmissionFault

_BY_CODE = {
    "deadline": "do less, or load less; the limits are the contest's",
    "died": "its last words on stderr say why; an import or a file that is missing is the usual cause",
    "out-of-memory": "use less memory: smaller batches, smaller weights, float32 instead of float64",
    "flood": "write to stdout what was asked for and nothing else; print to stderr",
    "reported": "fix what it reports: the traceback is on its stderr",
    "no-gradients": "write a method `gradient` that returns the gradient of your loss: attacks are crafted on it (A12)",
    "gave-up": "see the faults before it",
    "protocol": (
        "compare what it said with schemas/protocol.md (`sparring copy schemas`); the helper sparring_player speaks it "
        "for you"
    ),
}
_INSTALL = (
    "install it here for the process backend, and put it into the image "
    "(`sparring explain submit-an-attack#5-in-a-container`)"
)
_BY_STDERR = (
    (
        r"Temporary failure in name resolution|Name or service not known|Network is unreachable|ENETUNREACH|EAI_AGAIN",
        "a sandbox has no network: put what it downloads into the image when you build it",
    ),
    (
        r"Read-only file system|EROFS",
        "a sandbox can write under /tmp only: write there, or write the file when you build the image",
    ),
    (
        r"Permission denied|Operation not permitted|EACCES|EPERM|must be root|root privileges",
        "a sandbox runs as a user without rights (10001): make files readable by all, and do not ask for more",
    ),
    (r"No space left on device|ENOSPC", "what a sandbox can write to is small (limits.tmp, limits.shm): write less"),
    (
        r"ModuleNotFoundError|ImportError|Cannot find module|error while loading shared libraries",
        _INSTALL,
    ),
    (
        r"can't open file|No such file or directory|ENOENT|executable file not found",
        "a file or a program is missing: check its name, `command` in submission.yaml, and COPY in the Dockerfile",
    ),
    (r"MemoryError|Cannot allocate memory|bad_alloc|ENOMEM", _BY_CODE["out-of-memory"]),
)
"""Patterns in the standard error, with the remedy; the first match counts. The hostile text is never shown here."""
_BY_REASON = {
    "magic": "print to stderr, or import sparring_player first, which keeps stdout safe",
    "count": "answer every picture of the question, in its order",
    "label": "answer with a class's number, from 0; null abstains",
    "index": "deliver each picture once, at the position it had in the question",
    "shape": "send scores as float32, one row a picture and one number a class",
    "nan": "send finite scores, or none: scores are optional",
    "payload-size": "send as many bytes as dtype and shape say",
    "payload-length": "send less at a time: `limits.payload_bytes` in `hello` is the most",
}


def fault_remedy(fault: SubmissionFault, stderr: bytes) -> str:
    """Returns the remedy for a fault of a player that wrote `stderr`."""
    if isinstance(fault, ProtocolFault):
        return _BY_REASON.get(fault.reason, _BY_CODE["protocol"])
    text = stderr.decode("utf-8", "replace")
    if isinstance(fault, PlayerReported):  # its standard error may not have arrived yet
        text += str(fault)
    for pattern, remedy in _BY_STDERR:
        if re.search(pattern, text):
            return remedy
    return _BY_CODE.get(fault.code, _BY_CODE["died"])
