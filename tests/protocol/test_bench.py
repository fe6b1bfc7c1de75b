"""The benchmark of the protocol runs; its figures are not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_benchmark_measures_every_case():
    """In its shortest form it measures twelve cases, each over pipe, session and a sandbox, and prints JSON."""
    short = ["--repetitions", "1", "--seconds", "0.001", "--backend", "process", "--json"]
    program = [sys.executable, str(ROOT / "bench" / "wire.py"), *short]
    results = json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)
    assert len(results) == 12
    for result in results:
        pixels = result["pictures"] * result["shape"][0] * result["shape"][1] * result["shape"][2]
        assert result["question_bytes"] > pixels
        assert result["ways"].keys() == {"pipe", "session", "process"}
        assert result["ways"]["pipe"]["factor_min"] == 1.0
        assert all(way["seconds_min"] > 0 for way in result["ways"].values())
    assert [result["goal"] for result in results].count(None) == 8
