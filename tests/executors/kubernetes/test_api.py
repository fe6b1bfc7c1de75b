"""The client: what passes is asked again, what does not is raised, and a deed whose answer was lost is done once."""

import json
import time
from collections.abc import Iterator

import pytest

from orchestrator.errors import ClusterRefused, ClusterUnavailable, UsageError
from orchestrator.executors.kubernetes import api as module
from orchestrator.executors.kubernetes.api import CONTROLLER_RIGHTS, JOBS, Client, Kind
from orchestrator.executors.kubernetes.api_response import TRANSIENT_STATUSES
from orchestrator.executors.kubernetes.lease import Lease
from tests.kubernetes_api import Cluster, Fakes, Settings
from tests.kubernetes_api.tests.conftest import Http, make_map

from .scripted_round import clusters, hangs, in_thread, jobs_of, pod_of, rig_on, wait, words

MAPS = Kind("", "configmaps")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without nodes."""
    with Cluster(Fakes(), ()) as made:
        yield made


@pytest.fixture
def slept() -> list[float]:
    """How long was waited: nobody waits in these tests."""
    return []


@pytest.fixture
def api(cluster, slept) -> Client:
    """Asks it."""
    client = Client.connect_to_url(cluster.url, "default", 600)
    client._sleep = slept.append
    return client


def made(api: Client, name: str = "a", **labels: str) -> dict:
    """Makes a small object."""
    return api.create(MAPS, make_map(name, labels))


def test_the_verbs_do_what_they_say(api) -> None:
    """Plain dicts in and out; None and False for what is not there, or there already."""
    assert made(api)["metadata"]["uid"]
    assert made(api) is None
    there = api.read(MAPS, "a")
    assert api.read(MAPS, "b") is None
    assert api.replace(MAPS, there | {"data": {"x": "y"}})["data"] == {"x": "y"}
    assert api.replace(MAPS, there | {"data": {"x": "z"}}) is None
    assert api.read(MAPS, "a")["data"] == {"x": "y"}
    assert api.delete(MAPS, "a", uid="another") is False
    assert api.delete(MAPS, "a", uid=there["metadata"]["uid"]) is True
    assert api.delete(MAPS, "a") is False
    assert api.replace(MAPS, there) is None


@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["create", "get", "list", "update", "delete"])
def test_what_passes_is_asked_again(cluster, api, verb, when, code) -> None:
    """Whether the deed was done or not: it is done once, and the answer is the one that is true then."""
    there = made(api, "there")
    cluster.faults.next(code, verb=verb, resource="configmaps", times=3, when=when)
    calls = {
        "create": lambda: made(api),
        "get": lambda: api.read(MAPS, "there"),
        "list": lambda: api.search(MAPS).items,
        "update": lambda: api.replace(MAPS, there | {"data": {"x": "y"}}),
        "delete": lambda: api.delete(MAPS, "there"),
    }
    answer = calls[verb]()
    done_before = when == "after" and verb in {"create", "update", "delete"}
    assert len(cluster.faults.seen) == (2 if done_before else 3)
    changed = {"create": made(api) is None, "delete": api.read(MAPS, "there") is None}
    assert changed.get(verb, True)
    if verb == "update":
        assert api.read(MAPS, "there")["data"] == {"x": "y"}
    assert (answer in (None, False)) == done_before


def test_credentials_that_were_good_are_tried_again(cluster, api, slept) -> None:
    """A server that starts answers 401 before it can verify tokens (kubernetes/kubernetes#65785)."""
    made(api)
    cluster.faults.next(401, verb="get", times=2)
    assert api.read(MAPS, "a") is not None
    assert len(slept) == 2


@pytest.mark.parametrize("after", [True, False])
def test_a_connection_that_breaks_is_made_again(cluster, api, after) -> None:
    """Before the deed or after it."""
    cluster.faults.disconnect(verb="create", resource="configmaps", after=after, times=2)
    made(api)
    assert api.read(MAPS, "a") is not None


def test_the_server_says_how_long_to_wait(cluster, api, slept) -> None:
    """Retry-After is honoured, and never longer than half a minute."""
    cluster.faults.retry_after = 7
    cluster.faults.next(429, verb="get", times=1)
    api.read(MAPS, "a")
    cluster.faults.retry_after = 3600
    cluster.faults.next(429, verb="get", times=1)
    api.read(MAPS, "a")
    assert slept == [7, 30]


def test_without_a_word_of_the_server_pauses_grow(cluster, api, slept) -> None:
    """Random, so that many clients do not come at once, and bounded."""
    cluster.faults.next(503, verb="get", times=12)
    api.read(MAPS, "a")
    assert len(slept) == 12
    assert all(0 <= pause <= min(10, 0.25 * 2**at) for at, pause in enumerate(slept))


def test_patience_ends(cluster) -> None:
    """A server that stays away is named with what was asked, and how often."""
    cluster.faults.next(503, times=10**6)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match=r"list jobs: .*503.*currently unable.* asked \d+ times in \d s"):
        Client.connect_to_url(cluster.url, "default", 0.2).search(JOBS)
    assert time.monotonic() - began < 5


def test_nobody_at_the_address(api) -> None:
    """No connection at all may pass too."""
    with pytest.raises(ClusterUnavailable, match="get jobs: no answer"):
        Client.connect_to_url("http://127.0.0.1:9", "default", 0.2).read(JOBS, "a")


@pytest.mark.parametrize(("code", "words"), [(401, "credentials are unknown"), (403, "give the rights in k8s/base")])
def test_what_does_not_pass_is_raised_at_once(cluster, api, slept, code, words) -> None:
    """With what was asked, the server's words, and the remedy."""
    cluster.faults.next(code, verb="get")
    with pytest.raises(ClusterRefused, match=rf"^get configmaps: .*{code}.*{words}") as caught:
        api.read(MAPS, "a")
    assert (caught.value.status, slept) == (code, [])


def test_an_object_that_is_none_is_refused_with_its_field(api, slept) -> None:
    """422 and 400 come from what was sent, and would come again."""
    with pytest.raises(ClusterRefused, match=r"create configmaps: .*422.*metadata\.name") as caught:
        api.create(MAPS, make_map("NOT A NAME"))
    assert caught.value.status == 422
    with pytest.raises(ClusterRefused, match="400"):
        api.create(MAPS, {"metadata": {"name": "x"}, "unknown": 1})
    assert slept == []


def test_a_conflict_on_a_create_is_no_object_that_exists(cluster, api) -> None:
    """A quota that changed meanwhile answers 409 as well; only AlreadyExists says that it is there."""
    cluster.faults.next(409, verb="create", times=2)
    assert made(api)["metadata"]["name"] == "a"


def test_lists_come_in_pages_and_are_whole(api, monkeypatch) -> None:
    """With selectors, and with the version of the first page."""
    monkeypatch.setattr(module, "PAGE_SIZE", 3)
    for number in range(10):
        made(api, f"m{number}", half=str(number % 2))
    assert len(api.search(MAPS).items) == 10
    found = api.search(MAPS, "half=1")
    assert [each["metadata"]["name"] for each in found.items] == ["m1", "m3", "m5", "m7", "m9"]
    assert int(found.version) >= 10
    assert [each["metadata"]["name"] for each in api.search(MAPS, fields="metadata.name=m4").items] == ["m4"]


def test_a_list_whose_pages_expire_begins_again(cluster, api, monkeypatch) -> None:
    """410 in the middle: what was read is thrown away, so nothing is twice and nothing of the past is in it."""
    monkeypatch.setattr(module, "PAGE_SIZE", 3)
    for number in range(10):
        made(api, f"m{number}")
    ask, pages = api._list_page, []

    def page(kind, query):
        pages.append(query["continue"])
        if len(pages) == 2:
            api.delete(MAPS, "m0")
            cluster.compact()
        return ask(kind, query)

    monkeypatch.setattr(api, "_list_page", page)
    assert [each["metadata"]["name"] for each in api.search(MAPS).items] == [f"m{number}" for number in range(1, 10)]
    assert [bool(token) for token in pages] == [False, True, False, True, True]


def test_a_list_that_always_expires_is_given_up(cluster, api) -> None:
    """Not for ever."""
    cluster.faults.next(410, verb="list", times=10**6)
    with pytest.raises(ClusterUnavailable, match="expired 5 times"):
        api.search(MAPS)


def test_a_watch_tells_and_ends(cluster, api) -> None:
    """From a version on; closed from another thread it ends at once."""
    version = api.search(MAPS).version
    watch, seen = api.watch(MAPS, "mine=yes", version, 60), []
    thread, errors = in_thread(lambda: seen.extend(each["type"] for each in watch))
    made(api, "other")
    made(api, "mine", mine="yes")
    wait(lambda: seen, "an event")
    watch.close()
    thread.join(120)
    assert (thread.is_alive(), errors, seen) == (False, [], ["ADDED"])
    watch.close()


@pytest.mark.parametrize("how", ["drop", "expired", "refused"])
def test_a_watch_that_breaks_says_so(cluster, api, how) -> None:
    """Cut in the middle, from a version that is forgotten, or not granted at all."""
    version = api.search(MAPS).version
    made(api)
    if how == "expired":
        cluster.compact()
    if how == "refused":
        cluster.faults.next(403, verb="watch")

    def listen() -> None:
        for _ in api.watch(MAPS, "", version, 60):
            cluster.faults.drop_watches()

    with pytest.raises(ClusterUnavailable):
        listen()


def test_a_watch_lasts_no_longer_than_it_was_asked_for(api) -> None:
    """It ends by itself, without an error."""
    began = time.monotonic()
    assert [each["type"] for each in api.watch(MAPS, "", api.search(MAPS).version, 1)] in ([], ["BOOKMARK"])
    assert time.monotonic() - began < 10


def test_the_rights_are_enough_and_each_is_used(tmp_path) -> None:
    """A user who has RIGHTS and nothing else plays a round that waits for quota and loses a Job; each verb occurs."""
    rules = [
        {"apiGroups": [right.kind.group], "resources": [right.kind.plural], "verbs": list(right.verbs)}
        for right in CONTROLLER_RIGHTS
    ]
    with clusters() as (cluster, hook):
        ask, place = Http(cluster.url), "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        ask("POST", f"{place}/roles", {"metadata": {"name": "r"}, "rules": rules})
        group = {"apiGroup": "rbac.authorization.k8s.io"}
        subject = group | {"kind": "User", "name": "controller"}
        binding = {"metadata": {"name": "r"}, "roleRef": group | {"kind": "Role", "name": "r"}, "subjects": [subject]}
        assert ask("POST", f"{place}/rolebindings", binding).code == 201
        quotas = "/api/v1/namespaces/default/resourcequotas"
        ask("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
        cluster.api.calls.clear()
        file = cluster.kubeconfig(tmp_path / "config", cluster.user_token("controller"))
        api, rig = Client.connect("default", file), rig_on(cluster, hook, tmp_path, scripts={("a", 1): hangs})
        with Lease(api.with_patience(1), "sparring-x", "me", 0.8).acquire(lambda _: None) as lease:
            thread, errors = in_thread(lambda: rig.play(jobs_of("a"), api=api, lease=lease))
            wait(lambda: words(rig).startswith("waits for quota"), "events")
            ask("DELETE", f"{quotas}/q")
            name = rig.attempt(jobs_of("a"), "a").name
            pod_of(rig, name)
            ask("DELETE", f"/apis/batch/v1/namespaces/default/jobs/{name}")
            thread.join(120)
        assert (errors, rig.kinds("a")) == ([], ["0", "pod-lost:1", "1", "end"])
        done = {(resource, verb) for verb, resource in cluster.api.calls if resource != "resourcequotas"}
    assert done == {(right.kind.plural, verb) for right in CONTROLLER_RIGHTS for verb in right.verbs}


def test_a_service_account_is_used_where_there_is_one(monkeypatch, tmp_path) -> None:
    """As in a pod; without it and without a kubeconfig, the message says what to do."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError, match=r"no cluster to talk to: .*KUBECONFIG"):
        Client.connect("default", tmp_path / "none")


def test_a_token_of_a_kubeconfig_is_sent(tmp_path) -> None:
    """Who asks is who the file says; a wrong token is refused at once."""
    with Cluster(Fakes(), (), Settings(want_token=True)) as cluster:
        token = cluster.user_token("anna", "system:masters")
        file = cluster.kubeconfig(tmp_path / "config", token)
        assert Client.connect("default", file).search(MAPS).items == []
        file.write_text(file.read_text().replace(token, "nobody"))
        with pytest.raises(ClusterRefused, match="401"):
            Client.connect("default", file).search(MAPS)


def test_what_may_pass_is_explained() -> None:
    """Every answer that is asked again stands in the table with its reason, and in the module's own words."""
    for code, why in TRANSIENT_STATUSES.items():
        assert str(code) in module.__doc__
        assert why


def test_threads_share_a_client(api) -> None:
    """Ten at once, each its own objects."""
    threads = [in_thread(lambda n=n: [made(api, f"t{n}-{m}") for m in range(10)]) for n in range(10)]
    for thread, _ in threads:
        thread.join(120)
    assert [errors for _, errors in threads] == [[]] * 10
    assert len(api.search(MAPS).items) == 100


def test_words_of_the_server_are_made_fit_to_show(cluster, api) -> None:
    """An admission webhook may say anything."""

    class Wild:
        status, headers = 418, {}

        @staticmethod
        def read() -> bytes:
            return json.dumps({"message": "\x1b[2J" + "x" * 10_000}).encode()

    api._send = lambda *_: Wild
    with pytest.raises(ClusterRefused) as caught:
        api.read(MAPS, "a")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1500
