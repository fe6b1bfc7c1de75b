"""What a container leaves as its last words, as the test cluster shows it.

Kubernetes documentation: Determine the Reason for Pod Failure, "Customizing the termination message".
"""

from tests.kubernetes_api import Cluster, Node

from .conftest import PODS, Http, container, pod_spec


class Last:
    """A container that ends at once and has written more than is kept."""

    def wait(self) -> int:
        """Ends with 0."""
        return 0

    def send_signal(self, number: int) -> None:
        """Has ended already."""

    def message(self) -> str:
        """Returns what it wrote."""
        return "x" * 5000


def test_a_termination_message_is_shown_and_cut() -> None:
    """It stands in the state of the container, at most 4096 characters of it."""
    with Cluster(lambda *_: Last(), (Node(),)) as cluster:
        Http(cluster.url)("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container())})
        cluster.settle()
        [status] = cluster.read("pods", "p")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"] == "x" * 4096
    assert status["state"]["terminated"]["exitCode"] == 0


def test_who_writes_nothing_has_no_message(cluster, http_) -> None:
    """No field at all."""
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container())})
    cluster.settle()
    [status] = cluster.read("pods", "p")["status"]["containerStatuses"]
    assert "message" not in status["state"]["terminated"]
