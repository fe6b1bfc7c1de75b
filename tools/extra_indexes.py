"""Tells which of pip's extra indexes answer, and prints them as a value of PIP_EXTRA_INDEX_URL.

    export PIP_EXTRA_INDEX_URL="$(.venv/bin/python tools/extra_indexes.py download)"

The argument is a command of pip, whose settings are read. pip would wait minutes for an index that cannot be reached,
package by package.
"""

import ast
import http.client
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable

EXTRA = "extra-index-url"
_INDEX_SECONDS = 15.0
"""How long an extra index may take to answer."""


def pip_settings(command: str) -> dict[str, str]:
    """Returns pip's settings for one of its commands."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    return settings_of(command, listed.splitlines())


def settings_of(command: str, lines: Iterable[str]) -> dict[str, str]:
    """Returns a command's settings in the lines of `pip config list`, such as `global.find-links='/wheels'`."""
    sections = ("global", command, ":env:")  # the later over the earlier
    found: dict[str, dict[str, str]] = {section: {} for section in sections}
    for line in lines:
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for section in sections for key, value in found[section].items()}


def leave_out_silent_indexes(settings: dict[str, str]) -> None:
    """Takes the extra indexes out of the settings that cannot be reached, and says which."""
    if "proxy" in settings or EXTRA not in settings:  # a proxy that pip alone knows may reach them
        return
    indexes = settings[EXTRA].split()
    silent = {index for index in indexes if not answers(without_login(index))}
    for index in sorted(silent):
        print(
            f"the index {without_login(index)} cannot be reached; packages come from the other indexes",
            file=sys.stderr,
        )
    settings[EXTRA] = " ".join(index for index in indexes if index not in silent)


def variable(settings: dict[str, str]) -> str:
    """Returns what PIP_EXTRA_INDEX_URL has to be so that pip takes the extra indexes of these settings, and no other.

    pip ignores an empty variable, and would take what a file of settings names. It reads a blank as no index.
    """
    return settings.get(EXTRA) or " "


def without_login(index: str) -> str:
    """Returns an address without the user and the password that may stand in it."""
    scheme, separator, rest = index.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def answers(index: str) -> bool:
    """Returns whether somebody answers at an address, be it with a refusal, or whether uv and pip have to see."""
    try:
        urllib.request.urlopen(urllib.request.Request(index, method="HEAD"), timeout=_INDEX_SECONDS).close()  # noqa: S310
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # pip may know its certificate
    except OSError:
        return False
    except (ValueError, http.client.HTTPException):  # no address that is understood here
        return True
    return True


if __name__ == "__main__":
    found = pip_settings(sys.argv[1])
    leave_out_silent_indexes(found)
    print(variable(found))
