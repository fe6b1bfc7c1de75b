"""`sparring demo --serve`: the demo as a site."""

import re

import pytest

from tests.web.browsing import running


@pytest.mark.slow
def test_the_demo_is_a_site(tmp_path):
    """Its teams have submitted, its round is asked for, and the same command serves the same contest again."""
    folder = tmp_path / "demo"
    words = ("demo", "--serve", "--out", str(folder), "--slots", "1")
    with running(words, folder) as service:
        assert service.organizer_link
        status, kind, home = service.get("/")
        assert (status, kind) == (200, "text/html")
        assert "Regression to the Mean" in home
        facts = re.sub(r"<[^>]+>|\s+", " ", home)
        assert re.search(r"Submissions +6 ", facts), facts[:2000]
        assert service.get("/progress/")[0] == service.get("/boards/")[0] == 200
    ledger = (folder / "contest.sqlite").stat().st_ino
    with running(words, folder) as service:
        assert service.get("/")[0] == 200
    assert (folder / "contest.sqlite").stat().st_ino == ledger
