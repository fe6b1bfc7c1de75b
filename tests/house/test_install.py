"""tools/install.py: packages are installed by uv under pip's settings, and by pip where uv cannot."""

import importlib
import os
import socket
import subprocess
import sys
import sysconfig
import threading
import venv
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def tool(root, monkeypatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.syspath_prepend(root / "tools")
    return importlib.import_module("install")


@pytest.fixture
def extra_indexes(root, monkeypatch) -> ModuleType:
    """The other program as a module."""
    monkeypatch.syspath_prepend(root / "tools")
    return importlib.import_module("extra_indexes")


@pytest.fixture
def environment(tmp_path) -> Path:
    """An environment without packages; returns its Python."""
    venv.create(tmp_path / "env", with_pip=False)
    return tmp_path / "env" / "bin" / "python"


@pytest.fixture
def wheels(tmp_path) -> Path:
    """A folder with one wheel: there is no such package in any index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    about = "sparring_nothing-1.0.dist-info"
    with zipfile.ZipFile(folder / "sparring_nothing-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("sparring_nothing.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: sparring-nothing\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ["sparring_nothing.py", *(f"{about}/{name}" for name in ("METADATA", "WHEEL", "RECORD"))]
        wheel.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    return folder


def install(root: Path, python: Path, wheels: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Installs the package with pip and uv of this environment, and with no setting but these."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    settings |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    settings |= {"PYTHONPATH": sysconfig.get_path("purelib"), "UV_CACHE_DIR": str(wheels.parent / "cache")} | more
    command = [str(python), str(root / "tools" / "install.py"), "sparring-nothing"]
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)


def installer(python: Path) -> str:
    """Returns which program installed the package."""
    (found,) = python.parent.parent.glob("lib/python*/site-packages/sparring_nothing-1.0.dist-info/INSTALLER")
    return found.read_text().strip()


def test_uv_installs_under_the_settings_of_pip(root, environment, wheels) -> None:
    """The wheel lies in a folder that only pip's settings name."""
    done = install(root, environment, wheels)
    assert (done.returncode, done.stderr) == (0, "")
    assert installer(environment) == "uv"


def test_where_uv_cannot_pip_installs(root, environment, wheels) -> None:
    """Said in a line, since it takes longer."""
    done = install(root, environment, wheels, UV_CACHE_DIR=os.devnull)
    assert done.returncode == 0, done.stderr
    assert "uv did not install this, now pip does" in done.stderr
    assert installer(environment) == "pip"


class Refusing(BaseHTTPRequestHandler):
    """An index that has no package."""

    def do_GET(self) -> None:
        """Answers that there is nothing."""
        self.send_error(404)

    def do_HEAD(self) -> None:
        """Answers the same."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def index() -> Iterator[str]:
    """The address of an index that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_index() -> Iterator[str]:
    """An address of this machine at which nobody answers: its port is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/simple"


def test_an_extra_index_that_does_not_answer_is_left_out(root, environment, wheels, index, silent_index) -> None:
    """The others are asked, and it is said which was not."""
    extra = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": f"{silent_index} {index}"}
    done = install(root, environment, wheels, **extra)
    said = f"the index {silent_index} cannot be reached; packages come from the other indexes\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert installer(environment) == "uv"


def test_pip_asks_no_silent_index_either_that_a_file_of_settings_names(root, environment, wheels, silent_index) -> None:
    """It ignores an empty variable, and would wait for what the file names."""
    (wheels.parent / "pip.conf").write_text(f"[global]\nextra-index-url = {silent_index}\n")
    settings = {"PIP_CONFIG_FILE": str(wheels.parent / "pip.conf"), "PIP_NO_INDEX": "0", "PIP_INDEX_URL": silent_index}
    settings |= {"PIP_RETRIES": "0", "PIP_VERBOSE": "2"}
    done = install(root, environment, wheels, UV_CACHE_DIR=os.devnull, **settings)
    assert done.returncode == 0, done.stderr
    assert f"Looking in indexes: {silent_index}\n" in done.stdout


def test_a_login_in_an_index_is_not_shown(extra_indexes, silent_index, index, capsys) -> None:
    """It is no part of the host that is asked either; what cannot be judged here is left to uv and pip."""
    settings = {"extra-index-url": " ".join(each.replace("//", "//ada:secret@") for each in (silent_index, index))}
    extra_indexes.leave_out_silent_indexes(settings)
    assert settings == {"extra-index-url": index.replace("//", "//ada:secret@")}
    assert capsys.readouterr().err.startswith(f"the index {silent_index} cannot be reached")
    odd = {"extra-index-url": "/wheels/simple http://[x"}
    extra_indexes.leave_out_silent_indexes(odd)
    assert odd == {"extra-index-url": "/wheels/simple http://[x"}


def test_what_neither_can_install_is_a_failure(root, environment, wheels) -> None:
    """The exit code is pip's."""
    (wheels / "sparring_nothing-1.0-py3-none-any.whl").unlink()
    assert install(root, environment, wheels).returncode != 0


def test_every_index_of_pip_is_handed_over(tool, extra_indexes) -> None:
    """Variables go before files, a command's own section before the common one; a value may be a list."""
    listed = [
        "global.index-url='https://a.example/simple'",
        "global.extra-index-url='https://b.example/simple https://c.example/simple'",
        "install.find-links='/wheels'",
        "global.find-links='/other'",
        ":env:.index-url='https://d.example/simple'",
        ":env:.no-index='0'",
        "download.find-links='/never'",
    ]
    assert list(tool.uv_options(extra_indexes.settings_of("install", listed))) == [
        *("--default-index", "https://d.example/simple"),
        *("--index", "https://b.example/simple", "--index", "https://c.example/simple"),
        *("--find-links", "/wheels"),
    ]


def test_certificates_and_patience_are_handed_over(tool, extra_indexes) -> None:
    """They are variables for uv."""
    settings = extra_indexes.settings_of("install", ["global.cert='/etc/ca.crt'", ":env:.default-timeout='180'"])
    assert tool.uv_variables(settings) == {"SSL_CERT_FILE": "/etc/ca.crt", "UV_HTTP_TIMEOUT": "180"}


def test_it_starts_with_what_every_python_has(root) -> None:
    """It runs before anything is installed."""
    text = "".join((root / "tools" / name).read_text("utf-8") for name in ("install.py", "extra_indexes.py"))
    imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= sys.stdlib_module_names | {"extra_indexes"}
