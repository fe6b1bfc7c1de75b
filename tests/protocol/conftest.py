"""Fixtures for tests of the image protocol: sessions in a known state, and the test vectors."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.protocol import frames
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, QueriesHeader, Role, TaskHeader, Want
from orchestrator.protocol.session import Session

HERE = Path(__file__).parent
VECTORS = HERE.parents[1] / "schemas" / "vectors"
CLASSES = 10
PAYLOAD_LIMIT = 4096
QUERIES = QueriesHeader(per_picture=5, batch=2, prices={Want.DECISION: 1, Want.SCORES: 2})


@pytest.fixture(scope="session")
def pixels():
    """Two pictures [2, 1, 2, 2] with the values 0 to 7."""
    return np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)


@pytest.fixture(scope="session")
def hello() -> dict[str, Any]:
    """The arguments of `ask_hello`."""
    budget = BudgetHeader(norm="linf", epsilon=8)
    task = TaskHeader(name="tiny", classes=[str(n) for n in range(CLASSES)], shape=[1, 2, 2], budget=budget)
    limits = LimitsHeader(
        ready_seconds=120, step_seconds=10, batch=64, payload_bytes=1, memory_bytes=2 * 1024**3, threads=1
    )
    return {"task": task, "limits": limits, "seed": 7}


@pytest.fixture
def greeted(hello) -> Callable[..., Session]:
    """Returns a function that makes a session whose player is ready and gives gradients."""

    def make(role: Role, *, queries: bool = False, payload_limit: int = PAYLOAD_LIMIT) -> Session:
        session = Session(role, CLASSES, payload_limit, queries=QUERIES if queries else None)
        session.ask_hello(**hello)
        [_] = session.feed(frames.encode_frame({"type": "ready", "id": 1, "gives": ["label", "scores", "gradient"]}))
        return session

    return make


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """The index of the test vectors; each entry has its bytes under `data`."""
    index = json.loads((VECTORS / "vectors.json").read_text(encoding="utf-8"))
    for kind in ("valid", "malformed", "incomplete"):
        for entry in index[kind]:
            entry["data"] = (VECTORS / entry["file"]).read_bytes()
    return index


@pytest.fixture(scope="session")
def script() -> Callable[[str], dict[str, Any]]:
    """Returns a function that runs a script beside the tests without its main part and returns its names."""
    return lambda name: runpy.run_path(str(HERE / name))
