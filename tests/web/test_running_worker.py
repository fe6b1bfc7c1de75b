"""The worker that `sparring serve` keeps beside the service."""

import time

import pytest
from structlog.testing import capture_logs


@pytest.mark.parametrize(("options", "status", "level"), [(["--help"], 0, "info"), (["--nonsense"], 2, "error")])
def test_only_a_worker_that_fails_is_an_error(contest, monkeypatch, options, status, level):
    """One that ends as it was told, as Ctrl-C tells both processes, is started again and logged as what it is."""
    del contest  # which configures Django
    from orchestrator.web import server

    monkeypatch.setattr(server, "_RESTART_SECONDS", (60.0, 60.0))
    with capture_logs() as logs, server.running_worker(options):
        until = time.monotonic() + 60
        while not logs and time.monotonic() < until:
            time.sleep(0.05)
    assert [(each["event"], each["status"], each["log_level"]) for each in logs] == [("worker_ended", status, level)]
