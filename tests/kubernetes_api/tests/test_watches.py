"""Watches of the test cluster.

Kubernetes documentation: API concepts, "Efficient detection of changes", "Watch bookmarks", "Streaming lists".
"""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlencode, urlsplit

import pytest
from kubernetes import watch
from kubernetes.client import ApiException

from tests.kubernetes_api import eventually

from .conftest import JOBS, MAPS, make_job, make_map


class Stream:
    """A watch that is read on a thread of its own."""

    def __init__(self, url: str, path: str, query: dict[str, str]) -> None:
        self.events: list[tuple[str, dict]] = []
        self.code, self.ended, self.broken = 0, False, False
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        self._connection.request("GET", f"{path}?{urlencode({'watch': '1'} | query)}")
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        self.code = self._answer.status
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            rest = b""
            while data := self._answer.read1():
                *lines, rest = (rest + data).split(b"\n")
                events = [json.loads(line) for line in lines]
                self.events += [(event["type"], event["object"]) for event in events]
        except (http.client.HTTPException, OSError):
            self.broken = True
        self.ended = True

    def close(self) -> None:
        """Ends it from this side."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(120)
        self._answer.close()
        self._connection.close()

    def named(self) -> list[tuple[str, str]]:
        """The events that came, by type and name, but for bookmarks."""
        return [(kind, found["metadata"]["name"]) for kind, found in self.events if kind != "BOOKMARK"]

    def wait(self, *expected: tuple[str, str]) -> None:
        """Waits until exactly these events have come."""
        eventually(lambda: len(self.named()) >= len(expected), f"{expected}")
        assert self.named() == list(expected)


@pytest.fixture
def stream(cluster):
    """Returns `stream(path, **query)`, a watch that ends after 5 s unless told otherwise."""

    @contextmanager
    def opened(path: str, **query: str) -> Iterator[Stream]:
        made = Stream(cluster.url, path, {"timeoutSeconds": "5"} | query)
        try:
            yield made
        finally:
            made.close()

    return opened


def test_a_watch_tells_what_has_changed_since_a_version(http_, stream) -> None:
    """Created, changed and deleted objects, each with its newest version; the deleted one as it was."""
    http_("POST", MAPS, make_map("old"))
    version = http_("GET", MAPS).json["metadata"]["resourceVersion"]
    with stream(MAPS, resourceVersion=version) as seen:
        made = http_("POST", MAPS, make_map("a", k="1")).json
        http_("PUT", f"{MAPS}/a", make_map("a", k="2"))
        http_("DELETE", f"{MAPS}/a")
        seen.wait(("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"))
    assert seen.events[0][1] == made
    assert seen.events[2][1]["data"] == {"k": "2"}
    versions = [int(found["metadata"]["resourceVersion"]) for _, found in seen.events]
    assert versions == sorted(set(versions))


def test_a_watch_without_a_version_begins_with_what_is_there(http_, stream) -> None:
    """Get State and Start at Most Recent, as the documentation calls it."""
    http_("POST", MAPS, make_map("a"))
    with stream(MAPS) as seen:
        seen.wait(("ADDED", "a"))
        http_("POST", MAPS, make_map("b"))
        seen.wait(("ADDED", "a"), ("ADDED", "b"))


def test_a_watch_that_selects_sees_what_comes_and_goes(http_, stream) -> None:
    """An object that is labelled is ADDED, one that loses the label DELETED; other namespaces are not seen."""
    http_("POST", MAPS, make_map("a"))
    version = http_("GET", MAPS).json["metadata"]["resourceVersion"]
    with stream(MAPS, resourceVersion=version, labelSelector="colour=red") as seen:
        far = "/api/v1/namespaces/kube-system/configmaps"
        http_("POST", far, make_map("far", {"colour": "red"}))
        http_("PUT", f"{far}/far", make_map("far", {"colour": "red"}, k="1"))
        http_("PUT", f"{MAPS}/a", make_map("a", k="0"))
        http_("PUT", f"{MAPS}/a", make_map("a", {"colour": "red"}))
        http_("PUT", f"{MAPS}/a", make_map("a", {"colour": "red"}, k="1"))
        http_("PUT", f"{MAPS}/a", make_map("a", {"colour": "blue"}))
        seen.wait(("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"))


def test_a_watch_ends_when_its_time_is_over(stream) -> None:
    """`timeoutSeconds` ends the stream cleanly."""
    began = time.monotonic()
    with stream(MAPS, timeoutSeconds="1") as seen:
        eventually(lambda: seen.ended)
    assert not seen.broken
    assert 0.9 < time.monotonic() - began < 3


def test_bookmarks_tell_how_far_a_watch_has_come(http_, stream) -> None:
    """Only where they are asked for; they carry nothing but a version, also of changes elsewhere."""
    with stream(MAPS, timeoutSeconds="1", allowWatchBookmarks="true") as seen, stream(MAPS, timeoutSeconds="1") as bare:
        newest = http_("POST", JOBS, make_job("a", suspend=True)).json["metadata"]["resourceVersion"]
        eventually(lambda: seen.ended and bare.ended)
    kinds = {kind for kind, _ in seen.events}
    assert kinds == {"BOOKMARK"}
    last = seen.events[-1][1]
    assert (last["kind"], last["apiVersion"]) == ("ConfigMap", "v1")
    assert int(last["metadata"]["resourceVersion"]) >= int(newest)
    assert bare.events == []


def test_a_streaming_list_says_when_it_is_whole(http_, stream) -> None:
    """`sendInitialEvents`: what is there, then a bookmark with its annotation."""
    http_("POST", MAPS, make_map("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with stream(MAPS, **query) as seen:
        eventually(lambda: len(seen.events) >= 2)
    assert [kind for kind, _ in seen.events[:2]] == ["ADDED", "BOOKMARK"]
    assert seen.events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_version_that_is_forgotten_is_an_error_in_the_stream(cluster, http_, stream) -> None:
    """200, then one ERROR event with 410 Expired, then the end."""
    version = http_("POST", MAPS, make_map("a")).json["metadata"]["resourceVersion"]
    http_("POST", MAPS, make_map("b"))
    cluster.compact()
    with stream(MAPS, resourceVersion=version) as seen:
        eventually(lambda: seen.ended)
    assert seen.code == 200
    [(kind, found)] = seen.events
    assert (kind, found["kind"], found["code"], found["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert found["message"].startswith(f"too old resource version: {version}")


def test_the_official_client_sees_that_it_must_list_again(cluster, batch) -> None:
    """Its Watch raises ApiException 410 for that event."""
    version = batch.list_namespaced_job(namespace="default").metadata.resource_version
    batch.create_namespaced_job(namespace="default", body=make_job("a", suspend=True))
    batch.create_namespaced_job(namespace="default", body=make_job("b", suspend=True))
    cluster.compact()
    with pytest.raises(ApiException) as gone:
        list(
            watch.Watch().stream(
                batch.list_namespaced_job, namespace="default", resource_version=version, timeout_seconds=2
            )
        )
    assert gone.value.status == 410


def test_the_official_client_watches(batch) -> None:
    """Events come with typed objects."""
    batch.create_namespaced_job(namespace="default", body=make_job("a", suspend=True))
    stream = watch.Watch().stream(batch.list_namespaced_job, namespace="default", timeout_seconds=3)
    event = next(iter(stream))
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")


def test_a_watch_can_be_cut(cluster, http_, stream) -> None:
    """A test may end streams in the middle; the client sees a broken connection."""
    with stream(MAPS) as seen, stream(JOBS) as other:
        http_("POST", MAPS, make_map("a"))
        seen.wait(("ADDED", "a"))
        cluster.faults.drop_watches("configmaps")
        eventually(lambda: seen.ended)
        assert seen.broken
        assert not other.ended


def test_many_watches_each_see_everything(http_, stream) -> None:
    """Ten streams, fifty changes, none lost, none twice."""
    expected = [("ADDED", f"m{number:02}") for number in range(50)]
    with ExitStack() as stack:
        streams = [stack.enter_context(stream(MAPS)) for _ in range(10)]
        for number in range(50):
            http_("POST", MAPS, make_map(f"m{number:02}"))
        for each in streams:
            each.wait(*expected)
