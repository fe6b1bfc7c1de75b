"""What a round does is the same whatever a defence answers: its course tells of none of them (C9)."""

import dataclasses

import numpy as np
import pytest

from orchestrator.domain.plan import Stage
from orchestrator.domain.tasks import Isolation
from orchestrator.protocol import frames

QUESTIONS = 24
"""Twelve pictures, as they are and attacked."""


def answering(turn: int, asked: list[tuple[str, bytes]]):
    """Returns a defence that gives scores for the first value plus `turn`, and notes what it is asked."""

    def answer(header, payload):
        asked.append((str({name: value for name, value in header.items() if name != "id"}), payload))
        size = len(payload) // header["shape"][0]
        labels = [(payload[place * size] + turn) % 4 for place in range(header["shape"][0])]
        scores = np.eye(4, dtype="<f4")[labels]
        said = {"type": "answers", "id": header["id"], "labels": labels, "dtype": "f32", "shape": list(scores.shape)}
        return frames.encode_frame(said, scores.tobytes())

    return answer


@pytest.mark.parametrize("isolation", list(Isolation))
def test_two_models_are_asked_the_same_in_as_many_steps(stage, isolation) -> None:
    """One right everywhere and one wrong everywhere get the same questions, in as many sandboxes, steps and events.

    Events are compared job by job: while one job ends the next one plays already, so theirs come in any order. What is
    asked again to check determinism is drawn from the round's secret and the digest of all answers together.
    """
    courses, answers = [], []
    for turn in (0, 1):
        asked: list[tuple[str, bytes]] = []
        played = stage(defences={"model": answering(turn, asked)}, isolation=isolation)
        played.setting = dataclasses.replace(played.setting, keep_scores=True)
        record = played.run()
        events: dict[tuple[str, str], list[str]] = {}
        for entry in played.ledger.read():
            of_job = (getattr(entry.event, "stage", ""), getattr(entry.event, "job", ""))
            events.setdefault(of_job, []).append(entry.event.kind)
        played_events = {of_job: kinds for of_job, kinds in events.items() if of_job[0] != Stage.REPLAY}
        sandboxes = [len(each) for each in played.sandboxes("model", Stage.CLASSIFY)]
        courses.append((asked[:QUESTIONS], sandboxes, played_events))
        answers.append({cell: given.tolist() for cell, given in record.answers("model", 12).items()})
    assert courses[0] == courses[1]
    assert len(answers[0]) == 2
    for cell, given in answers[0].items():
        assert all(one != other for one, other in zip(given, answers[1][cell], strict=True))
