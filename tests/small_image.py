"""An image like sparring/base:cpu without the files that no player of the tests needs.

Each determinism check in containers copies an image's files, which costs the engine seconds of processor time. With a
third of the files, tests that play rounds take half as long. Half of what is left is NumPy.
"""

import fcntl
import json
import shlex
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import IO

BASE = "sparring/base:cpu"
_NAME = "sparring-test/small-base"
_LIBRARIES = "usr/lib/x86_64-linux-gnu/"
_DROPPED = (
    *("usr/share/", "usr/sbin/", "var/lib/", "var/cache/", "usr/lib/apt", "usr/lib/systemd", "usr/lib/terminfo"),
    *("usr/bin/apt", "usr/bin/openssl", "usr/bin/perl", "usr/lib/python3/dist-packages"),
    *(f"usr/lib/python3.11/{name}" for name in ("distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test")),
    *(f"opt/packages/{name}" for name in ("PIL", "pillow", "bin")),
    *(f"{_LIBRARIES}{name}" for name in ("gconv", "perl", "security")),
    *(f"{_LIBRARIES}lib{name}" for name in ("apt", "db-", "gnutls", "p11", "unistring")),
)
"""The prefixes of file names that are left out."""
_DROPPED_OF_NUMPY = tuple(f"opt/packages/numpy/{name}" for name in ("distutils", "f2py", "typing"))


def small_base_image(*, numpy: bool = False) -> str:
    """Returns the tag of the small image for the engine's base image, with or without NumPy; makes it if it is missing.

    Raises:
        subprocess.CalledProcessError: the engine has no base image.
    """
    return _tag(numpy)


@cache
def _tag(numpy: bool) -> str:
    about = json.loads(_docker("image", "inspect", "--format", "{{json .}}", BASE))
    tag = f"{_NAME}-{'numpy' if numpy else 'plain'}:{about['Id'].removeprefix('sha256:')[:16]}"
    with Path(__file__).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may need it at once
        if not _docker("images", "--quiet", tag):
            _make(tag, about["Config"], (*_DROPPED, *(_DROPPED_OF_NUMPY if numpy else ["opt/packages/numpy"])))
    return tag


def _make(tag: str, configuration: dict, dropped: tuple[str, ...]) -> None:
    changes = [
        f"ENV {name}={shlex.quote(value)}" for name, _, value in (e.partition("=") for e in configuration["Env"])
    ]
    changes += [f"USER {configuration['User']}", f"WORKDIR {configuration['WorkingDir']}"]
    changes.append(f"CMD {json.dumps(configuration['Cmd'])}")
    container = _docker("create", BASE)
    words = [word for change in changes for word in ("--change", change)]
    try:
        with (
            subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export,
            subprocess.Popen(
                ["docker", "import", *words, "-", tag], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            ) as load,
        ):
            _copy_members(export.stdout, load.stdin, dropped)
            load.stdin.close()
            assert (export.wait(), load.wait()) == (0, 0), "the engine did not make the small image"
    finally:
        _docker("rm", container)


def _copy_members(whole: IO[bytes], small: IO[bytes], dropped: tuple[str, ...]) -> None:
    with tarfile.open(fileobj=whole, mode="r|") as source, tarfile.open(fileobj=small, mode="w|") as target:
        for member in source:
            if not member.name.startswith(dropped) and "/tests/" not in member.name:
                target.addfile(member, source.extractfile(member) if member.isreg() else None)


def _docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()
