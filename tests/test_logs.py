"""What log lines look like to people and to machines."""

import json
import subprocess
import sys

import pytest
import structlog

from orchestrator.logs import QUERY_PROGRESS, configure_logging

MAIL = ["Your code is", "", "AB\x1bCD"]


@pytest.fixture(autouse=True)
def restored():
    """Leaves logging as it was."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_lines_of_a_text_stand_below_their_event(capsys):
    """People can read a mail and copy from it; every line of it is printable."""
    configure_logging()
    structlog.get_logger().warning("mail_not_sent", to=["ada@example.org"], text_lines=MAIL)
    first, *others = capsys.readouterr().err.splitlines()
    assert "mail_not_sent" in first
    assert others == ["    Your code is", "", "    AB\\x1bCD"]


def test_an_event_is_one_line_for_machines(capsys):
    """However many lines its text has."""
    configure_logging(json_lines=True)
    structlog.get_logger().warning("mail_not_sent", text_lines=MAIL)
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["text_lines"] == ["Your code is", "", "AB\\x1bCD"]


def test_progress_passes_where_logs_are_quiet(capsys):
    """Of what is no warning only that does, so that nobody waits for hours without a word."""
    configure_logging(json_lines=True, quiet=True)
    log = structlog.get_logger()
    log.info("job_finished")
    log.debug(QUERY_PROGRESS)
    log.info(QUERY_PROGRESS, queries=5)
    log.warning("attempt_failed")
    found = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert found == [QUERY_PROGRESS, "attempt_failed"]


def test_settings_hold_for_the_first_line():
    """It imports structlog, and follows the settings given before; a later setting takes the place of an earlier."""
    program = """
import sys
from orchestrator import logs
log = logs.get_logger()
logs.configure_logging()
logs.configure_logging(json_lines=True, quiet=True)
assert "structlog" not in sys.modules
log.info("job_finished")
log.bind(job="j1").warning("attempt_failed")
logs.configure_logging(json_lines=True)
log.info("round_closed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line.get("job")) for line in lines] == [("attempt_failed", "j1"), ("round_closed", None)]
    assert done.stdout == ""
