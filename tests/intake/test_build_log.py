"""The logs of builds: how much of them is kept."""

import os

from orchestrator.intake import build_log


def test_the_oldest_logs_make_room(tmp_path, monkeypatch) -> None:
    """A stranger decides how much a build prints, and may submit again and again: all logs together are bounded."""
    monkeypatch.setattr(build_log, "MAX_BYTES", 100)
    monkeypatch.setattr(build_log, "MAX_FOLDER_BYTES", 400)
    for number in range(6):
        build_log.remove_oldest_logs(tmp_path)
        with build_log.open_build_log(tmp_path / f"{number}.log") as log:
            for _ in range(20):
                log("x" * 9)
        os.utime(tmp_path / f"{number}.log", ns=(number, number))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.log", "3.log", "4.log", "5.log"]
    build_log.remove_oldest_logs(tmp_path / "none")
