"""Fixtures and hooks for all tests."""

import gc
import hashlib
import importlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from hypothesis import settings
from typer import testing

from orchestrator.application.contests import seasons
from orchestrator.intake.build_record import BuildRecord
from orchestrator.ledger.contest_folder import ContestFolder

from . import postgresql, readme

_SOAK = bool(os.environ.get("SPARRING_SOAK"))

# A slow machine must not fail a property test. A test that needs a time limit or another number of inputs sets its own.
settings.register_profile("patient", deadline=None, max_examples=1000 if _SOAK else 50)
settings.load_profile("patient")

_TESTS = Path(__file__).parent
_WHOLE_ROUNDS = _TESTS / "e2e"
_QUICK = "not docker and not slow"
"""The marker expression of `make test`."""
_NOT_QUICK = re.compile(r"^pytestmark = \[?pytest\.mark\.(docker|slow)\b", re.MULTILINE)
_LONGEST = (
    "house/test_readme.py",
    "sandbox_selftest/test_programs.py",
    "cheats",
    "contract/test_driver.py",
    "e2e/test_replay.py",
    "e2e/test_season",
    "executors/kubernetes/test_rounds.py",
    "web/test_browser_pages.py",
    "house/test_documentation_site.py",
    "executors/kubernetes/test_query_rounds.py",
    "e2e/test_kills.py",
    "house/test_participants.py",
    "house/test_own_model.py",
    "web/test_contest_in_browsers.py",
)
"""Files and folders whose tests take minutes. Workers begin with them, so that none of them runs alone at the end."""
Require = Callable[[str, str], NoReturn]


def pytest_configure() -> None:
    """Makes the commands' consoles while COLUMNS is not set, because Rich would keep its value whatever a test sets.

    Also caches the parser of the command line: typer's runner would make the parsers of all commands at each call.

    A shell starts jobs in the background with SIGINT ignored, which the commands that tests interrupt would inherit.
    """
    os.environ.pop("COLUMNS", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    importlib.import_module("orchestrator.cli.console")
    testing._get_command = cache(testing._get_command)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips files of which `make test` runs no test, because importing PyTorch and other packages takes seconds."""
    if config.option.markexpr != _QUICK:
        return None
    if collection_path.suffix == ".py" and _NOT_QUICK.search(collection_path.read_text("utf-8")):
        return True
    return collection_path == _WHOLE_ROUNDS or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Excludes the objects that collection creates from garbage collection.

    None of them is garbage before the end. Scanning them would take as long as the collection of tests itself, and
    later a tenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Marks tests of whole rounds as slow, groups tests that share something, and sorts long tests first.

    Deselects tests that only `make soak` runs. Long tests come first: the files of `_LONGEST`, then tests that are slow
    or need the engine, then the others. xdist distributes groups in the order of their first tests
    (`--no-loadscope-reorder`).
    """
    if not _SOAK:
        left_out = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if item.path.is_relative_to(_WHOLE_ROUNDS):
            item.add_marker(pytest.mark.slow)
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    yield
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _group(item: pytest.Item) -> str:
    """Returns the xdist group of a test: its file, because tests of a file share fixtures, rounds and names of images.

    So one worker makes what they share, and xdist has few groups: for each test that ends, it goes through all of them.
    Tests that need the engine are another group than the other tests of their file, which run at other times.
    """
    file = item.path.relative_to(_TESTS).with_suffix("").as_posix()
    return file if item.get_closest_marker("docker") else f"{file} without the engine"


def _place(item: pytest.Item) -> tuple[int, str]:
    """Returns the sort key of a test: the longest tests come first, the quick ones last.

    Files in between are shuffled by a hash of their names, so that tests that wait for the engine and tests that need a
    processor run at the same time.
    """
    path = item.path.relative_to(_TESTS).as_posix()
    for place, begin in enumerate(_LONGEST):
        if path.startswith(begin):
            return place, ""
    if item.get_closest_marker("docker") or item.get_closest_marker("slow"):
        return len(_LONGEST), hashlib.sha256(path.encode()).hexdigest()
    return len(_LONGEST) + 1, ""


def _require(what: str, reason: str) -> NoReturn:
    """Skips the test, or fails it if `SPARRING_REQUIRE` lists the missing thing.

    `SPARRING_REQUIRE` has words such as `docker,data`, so that in CI a missing engine fails the tests that need it.
    """
    if what in os.environ.get("SPARRING_REQUIRE", "").replace(",", " ").split():
        pytest.fail(f"{what} is required here (SPARRING_REQUIRE), but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Resets the logging that a command configured: one that logs only warnings would hide lines from the next test."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def require() -> Require:
    """Returns `require(what, reason)`, which skips the test, or fails it if `SPARRING_REQUIRE` lists `what`."""
    return _require


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Gives tests a copy of this user's record of builds, so that they can use its builds and do not change it."""
    theirs = BuildRecord.of_user().folder
    state = tmp_path_factory.mktemp("state")
    if theirs.is_dir():
        shutil.copytree(theirs, state / "sparring" / "built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        yield


@pytest.fixture(scope="session")
def shared_data(require: Require) -> Path:
    """The folder with the shared pictures: SPARRING_SHARED_DATA, or ../shared/data beside the checkout."""
    named = os.environ.get("SPARRING_SHARED_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        require("data", f"there is no {folder}; set SPARRING_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def readme_lines(tmp_path_factory) -> readme.Ran:
    """The result of the README's commands that need no engine, run once. They play the demo that other tests check."""
    clone = tmp_path_factory.mktemp("readme") / "sparring"
    readme.make_clone(clone)
    return readme.run(clone, [block for block in readme.blocks() if block.kind == "sh" and not block.mark])


@pytest.fixture(scope="session")
def database_server(require: Require) -> Iterator[str]:
    """The URL of a PostgreSQL server that the tests start."""
    programs = postgresql.programs()
    if programs is None:
        require("postgresql", f"there is no PostgreSQL in {postgresql.PROGRAMS}; apt-get install postgresql")
    with postgresql.server(programs) as url:
        yield url


@pytest.fixture
def database_url(database_server: str) -> str:
    """The URL of a new PostgreSQL database for one test."""
    return postgresql.new_database(database_server)


@pytest.fixture(scope="session")
def service_database(request: pytest.FixtureRequest) -> str | None:
    """The URL of a PostgreSQL server if `SPARRING_TEST_DATABASE` requests one, otherwise None: databases are files."""
    wanted = os.environ.get("SPARRING_TEST_DATABASE", "sqlite")
    found: str | None = {"sqlite": lambda: None, "postgresql": lambda: request.getfixturevalue("database_server")}[
        wanted
    ]()
    return found


@pytest.fixture(scope="session", autouse=True)
def _ledgers_in_databases(service_database: str | None) -> Iterator[None]:
    """If there is a server, gives each contest that this process opens a database of its own for its ledger."""
    if service_database is None:
        yield
        return
    opened = seasons.open_contest

    def open_contest(*words: Any, database: str | None = None, **more: Any) -> ContestFolder:
        return opened(*words, database=database or postgresql.new_database(service_database), **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seasons, "open_contest", open_contest)
        yield


@pytest.fixture
def small_disk(require: Require) -> Iterator[Path]:
    """The mount point of a disk of 16 MiB for one test, which the test can fill."""
    place = Path(tempfile.mkdtemp(prefix="sparring-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "sparring-test", str(place)]
    try:
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            require("docker", "only root may mount a small disk, as where an engine runs")
        yield place
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    finally:
        place.rmdir()


@pytest.fixture(scope="session")
def fill() -> Callable[[Path, int], Path]:
    """Returns `fill(disk, leave)`, which fills a disk except for `leave` bytes and returns the file that fills it."""

    def taken(disk: Path, leave: int) -> Path:
        ballast = disk / "ballast"
        room = os.statvfs(disk)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - leave)
        return ballast

    return taken


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their length. Archives contain the time, so ids with their bytes would differ between workers."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) and len(val) > 20 else None
