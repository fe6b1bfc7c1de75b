"""An image like sparring/base:cpu without the files that no player of the tests needs.

Each determinism check in containers copies an image's files, which costs the engine seconds of processor time. The cost
depends on the number of files as well as on their size, so small files are left out, too.
"""

import fcntl
import hashlib
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
    *(f"etc/{name}/" for name in ("alternatives", "apt", "dpkg", "pam.d", "security", "ssl", "systemd")),
    *(f"usr/lib/python3.11/{name}" for name in ("distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test")),
    *(f"usr/lib/python3.11/{name}/" for name in ("asyncio", "curses", "dbm", "unittest", "venv", "wsgiref", "xml")),
    *(
        f"usr/lib/python3.11/encodings/{folder}{name}"
        for folder in ("", "__pycache__/")
        for name in ("big5", "cp1", "cp7", "cp8", "cp9", "euc", "gb", "iso", "koi8", "mac", "shift")
    ),
    *(f"opt/packages/{name}" for name in ("PIL", "pillow", "bin")),
    *(f"{_LIBRARIES}{name}" for name in ("gconv", "perl", "security")),
    *(f"{_LIBRARIES}lib{name}" for name in ("apt", "db-", "gnutls", "p11", "unistring")),
)
"""The prefixes of file names that are left out."""
_DROPPED_BESIDE_NUMPY = (
    *(f"opt/packages/numpy/{name}" for name in ("_core/include", "distutils", "f2py", "typing")),
    *("opt/packages/numpy-", "usr/lib/python3.11/multiprocessing/"),
    *(f"{_LIBRARIES}lib{name}" for name in ("blkid", "ext2fs", "gcrypt", "gmp", "gssapi", "hogweed", "krb5", "mount")),
    *(f"{_LIBRARIES}lib{name}" for name in ("nettle", "readline", "semanage", "sepol", "sqlite3", "systemd")),
)
_PROGRAMS_BESIDE_NUMPY = tuple(f"usr/bin/{name}" for name in ("bash", "dash", "mkdir", "python3", "sh"))


def small_base_image(*, numpy: bool = False) -> str:
    """Returns the tag of the small image for the engine's base image; makes it if it is missing.

    With NumPy it has hardly a program besides a shell and Python. Without it, it has what the steps of a build call.

    Raises:
        subprocess.CalledProcessError: the engine has no base image.
    """
    return _tag(numpy)


@cache
def _tag(numpy: bool) -> str:
    about = json.loads(_docker("image", "inspect", "--format", "{{json .}}", BASE))
    made_of = hashlib.sha256(about["Id"].encode() + Path(__file__).read_bytes()).hexdigest()
    tag = f"{_NAME}-{'numpy' if numpy else 'plain'}:{made_of[:16]}"
    with Path(__file__).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may need it at once
        if not _docker("images", "--quiet", tag):
            _make(tag, about["Config"], numpy=numpy)
    return tag


def _make(tag: str, configuration: dict, *, numpy: bool) -> None:
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
            _copy_members(export.stdout, load.stdin, numpy=numpy)
            load.stdin.close()
            assert (export.wait(), load.wait()) == (0, 0), "the engine did not make the small image"
    finally:
        _docker("rm", container)


def _copy_members(whole: IO[bytes], small: IO[bytes], *, numpy: bool) -> None:
    with tarfile.open(fileobj=whole, mode="r|") as source, tarfile.open(fileobj=small, mode="w|") as target:
        for member in source:
            if _is_kept(member.name, numpy=numpy):
                target.addfile(member, source.extractfile(member) if member.isreg() else None)


def _is_kept(name: str, *, numpy: bool) -> bool:
    if name.startswith(_DROPPED) or "/tests/" in name or name.endswith(".pyi"):
        return False
    if not numpy:
        return not name.startswith("opt/packages/numpy")
    if name.startswith("usr/bin/"):
        return name.startswith(_PROGRAMS_BESIDE_NUMPY)
    return not name.startswith(_DROPPED_BESIDE_NUMPY)


def _docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()
