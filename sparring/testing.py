"""Call a player from a test, with the contest's gate and limits applied.

    import sparring.testing

    def test_my_attack_keeps_the_budget():
        with sparring.testing.open_player("my_attack") as player:
            assert not player.perturb().forfeits.any()

The player runs in the process of the test: breakpoints are met, and what its code raises is raised as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator import resources
from orchestrator.application.submissions import self_check
from orchestrator.application.submissions.in_process_player import InProcessPlayer, open_in_process_player
from orchestrator.intake.contest_file import Contest

__all__ = ["InProcessPlayer", "open_player"]


@contextmanager
def open_player(
    folder: str | Path, contest: str | Path | None = None, task: str | None = None, *, limits: bool = True
) -> Iterator[InProcessPlayer]:
    """Gives the player in a submission's folder, loaded; it has `perturb`, `classify` and the contest's `samples`.

    Args:
        folder: the submission's folder, with a player in Python that uses the helper `sparring_player`.
        contest: the contest file; the shipped one, on handwritten digits, where it is None.
        task: the task, needed where there are several.
        limits: whether the time limits apply.

    Raises:
        Rejected: the folder would not be received.
        UsageError: the player is of another kind, or the task is not known.
        SubmissionFault: it did not get ready.
    """
    path = Path(contest) if contest else resources.resource_path("examples", "trial-match", "contest.yaml")
    with (
        self_check.check_setup(Contest(path), task, "process") as under,
        open_in_process_player(Path(folder).resolve(), under, limits=limits) as player,
    ):
        yield player
