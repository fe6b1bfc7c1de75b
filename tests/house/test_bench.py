"""The benchmarks run, in their shortest form; their figures are not judged here."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["scale.py", "--one", "4", "--pictures", "5"], {"size", "cells", "play", "read", "score", "megabytes"}),
        (["rounding.py", "--pictures", "1", "--json"], {"pictures", "rows"}),
        pytest.param(
            ["cluster.py", "--jobs", "300", "--json"],
            {"jobs", "seconds", "calls a job", "looks", "grows"},
            marks=pytest.mark.soak,
        ),
        (
            ["unrestricted.py", "--one", "--weeks", "2", "--teams", "6", "--defences", "2", "--pictures", "12"],
            {"pictures", "entries", "read_seconds", "fold_seconds", "open_seconds", "page_milliseconds"},
        ),
        pytest.param(
            ["broker.py", "--repetitions", "1", "--seconds", "0", "--queries", "1", "--json"],
            {"overhead", "spsa"},
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["round.py", "--pictures", "10", "--json"],
            {"pictures", "sandboxes", "bare_start_seconds", "overhead"},
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["questions.py", "--one", "1x1x50"], {"questions", "own us", "overhead us"}, marks=pytest.mark.slow
        ),
        pytest.param(
            ["web.py", "--visitors", "2", "--uploads", "1", "--megabytes", "9", "--seconds", "1", "--json"],
            {"boards", "parts of uploads", "submissions", "memory MiB"},
            marks=pytest.mark.soak,
        ),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_benchmark_prints_its_figures(words, keys) -> None:
    """As one JSON document, every figure there."""
    program, *options = words
    done = subprocess.run([sys.executable, f"bench/{program}", *options], capture_output=True, text=True, check=False)
    assert keys <= json.loads(done.stdout).keys(), done.stderr
