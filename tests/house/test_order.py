"""Workers begin with the tests that take long, and pytest runs without workers too."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import conftest


@pytest.mark.parametrize("begin", conftest._LONGEST)
def test_what_is_known_as_long_is_there(begin, root) -> None:
    """Each name in the list is the beginning of the path of a test."""
    assert list((root / "tests").glob(f"{begin}*"))


def test_long_tests_come_first(root) -> None:
    """First what is known as long, as it is listed; then what is slow or needs the engine; then the others."""

    def item(path: str, *marks: str) -> SimpleNamespace:
        return SimpleNamespace(path=root / "tests" / path, get_closest_marker=lambda name: name in marks)

    first, second = conftest._LONGEST[:2]
    order = [item(first, "slow"), item(second), item("a.py", "docker"), item("b.py", "slow"), item("a.py")]
    places = [conftest._place(each)[0] for each in order]
    assert places == sorted(places)
    assert len(set(places)) == 4


@pytest.mark.slow
def test_the_tests_are_found_without_xdist(root) -> None:
    """Groups are for its workers; pytest alone knows their marker, which this test has, since it is slow."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only", "-qq"]
    done = subprocess.run([*command, __file__], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
