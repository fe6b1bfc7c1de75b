"""The nodes of a cluster on which a submission played, and whether its replays ran on the same nodes.

A node's kernel remembers which of an image's files were looked up and read (docs/threat-model.md, "Memory by time").
"""

from collections.abc import Iterable

from orchestrator.domain.events import Event, StepFinished
from orchestrator.domain.plan import Stage


def nodes_played_on(happened: Iterable[Event], submission: str) -> frozenset[str]:
    """Returns the nodes on which a submission played, without those of its replays."""
    steps = (each for each in happened if isinstance(each, StepFinished) and each.submission == submission)
    return frozenset(step.node for step in steps if step.stage is not Stage.REPLAY and step.node)


def replayed_where_played(happened: Iterable[StepFinished]) -> list[str]:
    """Returns the ids of submissions with a replay on a node where they had played, sorted."""
    steps = [step for step in happened if step.node]
    play_nodes = {(step.submission, step.node) for step in steps if step.stage is not Stage.REPLAY}
    replayed = {(step.submission, step.node) for step in steps if step.stage is Stage.REPLAY}
    return sorted({submission for submission, _ in play_nodes & replayed})
