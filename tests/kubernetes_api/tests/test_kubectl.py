"""The test cluster as kubectl sees it: a client that this project did not write and did not choose the calls of.

Kubernetes documentation: Declarative Management of Kubernetes Objects Using Configuration Files; the kubectl reference.
"""

import json

from tests.kubernetes_api import eventually

from .conftest import JOBS, container, make_job


def test_it_speaks_to_the_server(kubectl) -> None:
    """Version and nodes."""
    assert '"gitVersion": "v1.' in kubectl("version", "-o", "json").stdout
    assert kubectl("get", "nodes", "-o", "name").stdout == "node/node-1\n"


def test_it_applies_and_applies_again(cluster, kubectl) -> None:
    """Client-side apply: created, then patched from what was applied last, then nothing to do."""
    body = make_job("a", container(code=None), suspend=True)
    body["metadata"]["labels"] = {"round": "1", "gone": "soon"}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(body)).stdout == "job.batch/a created\n"
    body["metadata"]["labels"] = {"round": "2"}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(body)).stdout == "job.batch/a configured\n"
    assert cluster.read("jobs", "a", group="batch")["metadata"]["labels"] == {"round": "2"}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(body)).stdout == "job.batch/a unchanged\n"


def test_it_is_refused_as_by_a_real_server(kubectl) -> None:
    """Unknown fields are the server's business, and what is invalid is told by field."""
    unknown = kubectl("apply", "-f", "-", stdin=json.dumps(make_job("a", bogus=1)))
    assert unknown.returncode == 1
    assert 'strict decoding error: unknown field "spec.bogus"' in unknown.stderr
    invalid = kubectl("apply", "-f", "-", stdin=json.dumps(make_job("a", backoffLimit=-1)))
    assert 'The Job "a" is invalid: spec.backoffLimit: Invalid value: -1' in invalid.stderr


def test_it_lists_selects_and_deletes(cluster, http_, kubectl) -> None:
    """By label and field; deletion is in the background and is waited for."""
    for name in "ab":
        http_("POST", JOBS, make_job(name, container(code=None)))
    eventually(lambda: cluster.pods_of("a") and cluster.pods_of("b"))
    cluster.settle()
    found = kubectl("get", "pods", "-l", "job-name=a", "--field-selector", "status.phase=Running", "-o", "name").stdout
    assert found == f"pod/{cluster.pods_of('a')[0]['metadata']['name']}\n"
    done = kubectl("delete", "job", "a")
    assert done.stdout.startswith('job.batch "a" deleted')
    assert cluster.read("jobs", "a", group="batch") is None
    eventually(lambda: cluster.pods_of("a") == [])
    assert cluster.pods_of("b")


def test_it_waits_by_watching(http_, kubectl) -> None:
    """`kubectl wait` lists, watches, and ends when the condition is true."""
    http_("POST", JOBS, make_job("a"))
    done = kubectl("wait", "--for=condition=complete", "job/a", "--timeout=5s")
    assert done.stdout == "job.batch/a condition met\n", done.stderr


def test_it_reads_logs_and_events(real, tmp_path, require) -> None:
    """`kubectl logs` of a real process, `kubectl describe` of the Job."""
    import shutil  # noqa: PLC0415  only here
    import subprocess  # noqa: PLC0415  only here

    from .conftest import Http  # noqa: PLC0415  only here

    if shutil.which("kubectl") is None:
        require("kubectl", "kubectl is not installed")
    image = f"registry/x@sha256:{'0' * 64}"
    Http(real.url)("POST", JOBS, make_job("a", {"name": "main", "image": image, "command": ["echo", "hello"]}))
    eventually(lambda: real.read("jobs", "a", group="batch")["status"].get("succeeded"))
    config = real.kubeconfig(tmp_path / "kubeconfig")

    def kubectl(*arguments: str) -> str:
        command = ["kubectl", f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert kubectl("logs", "job/a") == "hello\n"
    assert "SuccessfulCreate" in kubectl("describe", "job", "a")
