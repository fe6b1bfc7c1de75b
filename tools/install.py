"""Installs packages into the environment of this Python, with uv under pip's settings, else with pip.

    .venv/bin/python tools/install.py -c images/_base/requirements.lock -e '.[demo]'

Arguments are those of `pip install`, as far as uv has them too. uv takes a fifth of pip's time, and reads none of
pip's settings. An index of a company, PyTorch's index of CPU wheels or a folder of wheels is usually named there, so
they are handed over. Where uv fails, for instance for want of a login that pip's keyring knows, pip installs.

An extra index that cannot be reached is left out. uv would fail, and pip would wait for it minutes, package by package.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import extra_indexes

_OPTIONS = {
    "index-url": "--default-index",
    extra_indexes.EXTRA: "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
    "trusted-host": "--allow-insecure-host",
}
_SWITCHES = {"no-index": "--no-index", "pre": "--prerelease=allow"}
_VARIABLES = {"cert": "SSL_CERT_FILE", "default-timeout": "UV_HTTP_TIMEOUT", "timeout": "UV_HTTP_TIMEOUT"}


def main(arguments: list[str]) -> int:
    """Installs; returns the exit code."""
    settings = extra_indexes.pip_settings("install")
    extra_indexes.leave_out_silent_indexes(settings)
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
    answering = {"PIP_EXTRA_INDEX_URL": extra_indexes.variable(settings)}
    return subprocess.run(command, env=os.environ | answering, check=False).returncode


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
