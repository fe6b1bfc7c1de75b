"""On which of a cluster's nodes a submission played, and whether its replays met what it left there.

The kernel of a node keeps what was looked up and read among an image's files (docs/threat-model.md, "Memory by time").
"""

from collections.abc import Iterable

from orchestrator.domain.events import Event, StepFinished
from orchestrator.domain.plan import Stage


def nodes_played_on(happened: Iterable[Event], submission: str) -> frozenset[str]:
    """Returns the nodes on which a submission played, its replays apart."""
    steps = (each for each in happened if isinstance(each, StepFinished) and each.submission == submission)
    return frozenset(step.node for step in steps if step.stage is not Stage.REPLAY and step.node)


def replayed_where_played(happened: Iterable[StepFinished]) -> list[str]:
    """Returns the submissions of which a replay ran on a node where they had played, sorted."""
    steps = [step for step in happened if step.node]
    play_nodes = {(step.submission, step.node) for step in steps if step.stage is not Stage.REPLAY}
    replayed = {(step.submission, step.node) for step in steps if step.stage is Stage.REPLAY}
    return sorted({submission for submission, _ in play_nodes & replayed})
