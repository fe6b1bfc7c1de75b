"""Escapes a submission's command for Kubernetes, so that the container gets it unchanged.

Kubernetes replaces `$(NAME)` in commands, arguments and values of variables by the value of the container's variable,
and `$$` by `$` ("Define Dependent Environment Variables"; k8s.io/kubernetes, third_party/forked/golang/expansion). A
word in which each `$` is doubled comes out as it was.
"""

import re
from collections.abc import Sequence

from orchestrator.errors import Problem, Rejected

MAX_WORDS = 256
MAX_CHARACTERS = 64 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def escape_command(words: Sequence[str]) -> list[str]:
    """Returns a command escaped so that the container gets exactly these words.

    Raises:
        Rejected: there is no command, it is too long for an object of Kubernetes, or a word cannot be an argument.
    """
    if not words or not words[0]:
        raise _rejected_command("there is no command", "say how to start the player: ENTRYPOINT or CMD")
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_CHARACTERS:
        raise _rejected_command(f"more than {MAX_WORDS} words or {MAX_CHARACTERS} characters", "shorten it")
    for word in words:
        if "\0" in word or not _is_text(word):
            raise _rejected_command("a word with a NUL character, or that is no Unicode text", "leave it out")
    return [word.replace("$", "$$") for word in words]


def is_shell_variable(name: str) -> bool:
    """Returns whether a variable of this name reaches the player: the shell that starts it drops all others."""
    return _VARIABLE.fullmatch(name) is not None


def _is_text(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _rejected_command(problem: str, remedy: str) -> Rejected:
    return Rejected("submission", [Problem("ENTRYPOINT", problem, remedy)])
