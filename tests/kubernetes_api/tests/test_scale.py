"""The test cluster with many Jobs: what a controller's pass costs is the controller's, not this server's."""

import os
import time

import pytest

from tests.kubernetes_api import Cluster, Fakes, Node, eventually

from .conftest import JOBS, Http, conditions, container, make_job

MANY = 1000 if os.environ.get("SPARRING_SOAK") else 400


def finished(cluster: Cluster) -> int:
    """How many Jobs are complete."""
    shelf = cluster.store.shelf(cluster.catalogue.of("jobs", "batch"))
    with cluster.store.changed:
        return sum("Complete" in conditions(each.data) for each in shelf.objects.values())


@pytest.mark.slow
def test_many_jobs_run_to_their_end() -> None:
    """The second half takes about as long as the first: nothing grows with what is finished."""
    with Cluster(Fakes(), (Node(pods=2000),)) as cluster:
        ask = Http(cluster.url)
        halves = []
        for half in range(2):
            began = time.process_time()
            for number in range(MANY // 2):
                body = make_job(f"job-{half}-{number:04}", container())
                body["metadata"]["labels"] = {"half": str(half)}
                assert ask("POST", JOBS, body).code == 201
            eventually(lambda half=half: finished(cluster) == (half + 1) * MANY // 2)
            halves.append(time.process_time() - began)
        assert halves[1] < 1.6 * halves[0] + 0.5, halves
        began = time.process_time()
        everything = ask("GET", JOBS).json
        whole = time.process_time() - began
        assert len(everything["items"]) == MANY
        assert whole < 1.0
        pages, query = 0, {"limit": "100", "labelSelector": "half=1"}
        while True:
            held = ask("GET", JOBS, **query).json["metadata"]
            pages += 1
            if "continue" not in held:
                break
            query["continue"] = held["continue"]
        assert pages == MANY // 2 // 100
