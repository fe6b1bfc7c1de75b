"""Installs packages into the environment of this Python, with uv under pip's settings, else with pip.

    .venv/bin/python tools/install.py -c images/_base/requirements.lock -e '.[demo]'

Arguments are those of `pip install`, as far as uv has them too. uv takes a fifth of pip's time, and reads none of
pip's settings. An index of a company, PyTorch's index of CPU wheels or a folder of wheels is usually named there, so
they are handed over. Where uv fails, for instance for want of a login that pip's keyring knows, pip installs.

An extra index that cannot be reached is left out. uv would fail, and pip would wait for it minutes, package by package.
"""

import ast
import http.client
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator

_EXTRA = "extra-index-url"
_OPTIONS = {
    "index-url": "--default-index",
    _EXTRA: "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
    "trusted-host": "--allow-insecure-host",
}
_SWITCHES = {"no-index": "--no-index", "pre": "--prerelease=allow"}
_VARIABLES = {"cert": "SSL_CERT_FILE", "default-timeout": "UV_HTTP_TIMEOUT", "timeout": "UV_HTTP_TIMEOUT"}
_INDEX_SECONDS = 15.0
"""How long an extra index may take to answer."""
_SECTIONS = ("global", "install", ":env:")
"""Of pip's settings, the later over the earlier."""


def main(arguments: list[str]) -> int:
    """Installs; returns the exit code."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = pip_settings(listed.splitlines())
    leave_out_silent_indexes(settings)
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable),
        *("--index-strategy", "unsafe-best-match"),  # the newest of all indexes, as pip chooses
        *uv_options(settings),
        *arguments,
    ]
    if subprocess.run(command, env=os.environ | uv_variables(settings), check=False).returncode == 0:
        return 0
    print("install.py: uv did not install this, now pip does", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *arguments]
    answering = {"PIP_EXTRA_INDEX_URL": settings.get(_EXTRA, "")}
    return subprocess.run(command, env=os.environ | answering, check=False).returncode


def leave_out_silent_indexes(settings: dict[str, str]) -> None:
    """Takes the extra indexes out of the settings that cannot be reached, and says which."""
    if "proxy" in settings or _EXTRA not in settings:  # a proxy that pip alone knows may reach them
        return
    indexes = settings[_EXTRA].split()
    silent = {index for index in indexes if not answers(without_login(index))}
    for index in sorted(silent):
        print(
            f"install.py: {without_login(index)} cannot be reached; packages come from the other indexes",
            file=sys.stderr,
        )
    settings[_EXTRA] = " ".join(index for index in indexes if index not in silent)


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


def pip_settings(lines: Iterable[str]) -> dict[str, str]:
    """Returns the settings in the lines of `pip config list`, such as `global.find-links='/wheels'`."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in lines:
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for section in _SECTIONS for key, value in found[section].items()}


def uv_options(settings: dict[str, str]) -> Iterator[str]:
    """Yields the options that say the same to uv; a setting with several values has blanks between them."""
    for key, option in _OPTIONS.items():
        for value in settings.get(key, "").split():
            yield from (option, value)
    for key, option in _SWITCHES.items():
        if settings.get(key, "").lower() in {"1", "true", "yes", "on"}:
            yield option


def uv_variables(settings: dict[str, str]) -> dict[str, str]:
    """Returns the settings that uv takes from the environment."""
    return {variable: settings[key] for key, variable in _VARIABLES.items() if key in settings}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
