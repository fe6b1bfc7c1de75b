"""Where a round is played: what is said before it begins on a cluster."""

import os

import pytest
import structlog

from orchestrator.application.rounds import kubernetes_target


@pytest.mark.parametrize("other", [False, True])
def test_the_drivers_user_is_compared_with_ours(tmp_path, other) -> None:
    """What another user writes on the volume no driver can read, so it is said at once, with the remedy."""
    mine = os.geteuid()
    with structlog.testing.capture_logs() as logs:
        kubernetes_target.warn_about_file_owner(tmp_path / "cluster", mine + other)
    assert [each["event"] for each in logs] == ["written_by_another_user"] * other
    if other:
        [said] = logs
        assert f"run as user {mine + 1}" in said["remedy"]
        assert ("cluster.user" in said["remedy"]) == (mine > 0), "a driver is never root"
    assert list((tmp_path / "cluster").iterdir()) == []
