"""What is left of a round on a cluster is removed, and of no other round."""

from collections.abc import Iterator

import pytest

from orchestrator.domain.plan import Stage
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes import cleanup
from orchestrator.executors.kubernetes.api import JOBS, LEASES, Client
from orchestrator.executors.kubernetes.cleanup import contest_selector, round_selector
from orchestrator.executors.kubernetes.labels import RoundRef
from tests.kubernetes_api import Cluster, Fakes, Node

from .rendering import BOUT, attempt, rendered

OTHER = RoundRef("cup", "initial", "digits", "sha256:" + "d" * 64)
FOREIGN = RoundRef("league", "final", "digits", "sha256:" + "e" * 64)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with Jobs of three rounds, two of them of one contest."""
    with Cluster(Fakes(), (Node(),)) as made:
        made.namespace("sparring")
        yield made


@pytest.fixture
def api(cluster) -> Client:
    """The client, and three rounds: two Jobs, one, and one."""
    made = Client.connect_to_url(cluster.url, "sparring", 5.0)
    for bout, stages in ((BOUT, (Stage.PERTURB, Stage.CLASSIFY)), (OTHER, (Stage.REPLAY,)), (FOREIGN, (Stage.REPLAY,))):
        for stage in stages:
            job = rendered(asked=attempt(stage, bout=bout))
            assert made.create(JOBS, job) is not None
    return made


def hold(api: Client, bout: RoundRef, holder: str | None) -> None:
    """Has a controller hold a round."""
    spec = {"leaseDurationSeconds": 30} | ({"holderIdentity": holder} if holder else {})
    api.create(LEASES, {"metadata": {"name": f"sparring-{bout.label_value}"}, "spec": spec})


def left(api: Client) -> list[str]:
    """Whose Jobs are there."""
    return sorted(each["metadata"]["labels"]["sparring/of"][0] for each in api.search(JOBS).items)


def test_one_round_is_swept(api) -> None:
    """By the hash of its secret, with its pods; the others stay."""
    swept = cleanup.delete_jobs(api, round_selector(BOUT.commitment), include_held=False)
    assert swept.jobs_by_round == {"c" * 16: 2}
    assert swept.total_jobs == 2
    assert left(api) == ["d", "e"]


def test_all_rounds_of_a_contest_are_swept(api) -> None:
    """By the contest's name."""
    swept = cleanup.delete_jobs(api, contest_selector("cup"), include_held=False)
    assert swept.jobs_by_round == {"c" * 16: 2, "d" * 16: 1}
    assert left(api) == ["e"]
    assert cleanup.delete_jobs(api, contest_selector("cup"), include_held=False).total_jobs == 0


def test_pods_go_with_their_jobs(api, cluster) -> None:
    """In the background, as everywhere here."""
    cleanup.delete_jobs(api, contest_selector("cup"), include_held=False)
    cluster.settle()
    jobs = {key[1] for key in cluster.store.shelf(cluster.catalogue.of("jobs", "batch")).objects}
    owners = {
        each.data["metadata"]["labels"]["job-name"]
        for each in cluster.store.shelf(cluster.catalogue.of("pods")).objects.values()
        if not each.data["metadata"].get("deletionTimestamp")
    }
    assert owners <= jobs


def test_what_a_controller_holds_is_left(api) -> None:
    """All of it, unless it is said twice; a Lease that nobody holds is no hindrance."""
    hold(api, OTHER, "controller-1")
    with pytest.raises(UsageError, match="controller-1 holds the round dddd"):
        cleanup.delete_jobs(api, contest_selector("cup"), include_held=False)
    assert left(api) == ["c", "c", "d", "e"]
    assert cleanup.delete_jobs(api, contest_selector("cup"), include_held=True).total_jobs == 3
    hold(api, FOREIGN, None)
    assert cleanup.delete_jobs(api, contest_selector("league"), include_held=False).total_jobs == 1
