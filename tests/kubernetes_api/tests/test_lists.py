"""Lists of the test cluster: selection, pages, versions.

Kubernetes documentation: Labels and Selectors; Field Selectors; API concepts, "Retrieving large results sets in
chunks" and "Resource versions".
"""

import pytest

from .conftest import JOBS, MAPS, PODS, container, make_job, make_map, pod_spec


def names(answer) -> list[str]:
    """The names in a list, in its order."""
    assert answer.code == 200, answer.text
    return [each["metadata"]["name"] for each in answer.json["items"]]


@pytest.fixture
def maps(http_) -> None:
    """Four objects with labels."""
    for name, labels in (
        ("a", {"colour": "red", "size": "1"}),
        ("b", {"colour": "blue"}),
        ("c", {"colour": "red"}),
        ("d", {}),
    ):
        http_("POST", MAPS, make_map(name, labels))


def test_a_list_has_its_kind_and_its_version(http_, maps) -> None:
    """Its items do not repeat kind and version, are ordered by name, and can be had for all namespaces at once."""
    answer = http_("GET", MAPS).json
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in answer["items"][0]
    assert answer["metadata"]["resourceVersion"] == answer["items"][-1]["metadata"]["resourceVersion"]
    assert names(http_("GET", "/api/v1/configmaps")) == names(http_("GET", MAPS)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("colour=red", "ac"),
        ("colour==red,size=1", "a"),
        ("colour!=red", "bd"),
        ("colour in (red, blue)", "abc"),
        ("colour notin (red)", "bd"),
        ("size", "a"),
        ("!colour", "d"),
        ("colour in (red),!size", "c"),
        ("", "abcd"),
        ("colour=green", ""),
    ],
)
def test_label_selectors_select(http_, maps, selector, found) -> None:
    """Equality-based and set-based requirements, all of which must hold."""
    assert "".join(names(http_("GET", MAPS, labelSelector=selector))) == found


@pytest.mark.parametrize("selector", ["a=b=c", "in (a)", "a in b", "=", "a=-x"])
def test_a_label_selector_that_is_none_is_refused(http_, selector) -> None:
    """400, and not an empty list."""
    assert http_("GET", MAPS, labelSelector=selector).code == 400


def test_field_selectors_select(cluster, http_) -> None:
    """Pods by name, node and phase; an unknown field is refused."""
    http_("POST", PODS, {"metadata": {"name": "here"}, "spec": pod_spec(container(code=None))})
    http_("POST", PODS, {"metadata": {"name": "nowhere"}, "spec": pod_spec(nodeSelector={"no": "node"})})
    cluster.settle()
    assert names(http_("GET", PODS, fieldSelector="metadata.name=here")) == ["here"]
    assert names(http_("GET", PODS, fieldSelector="status.phase!=Pending")) == ["here"]
    assert names(http_("GET", PODS, fieldSelector="spec.nodeName=node-1,status.phase=Running")) == ["here"]
    assert names(http_("GET", PODS, fieldSelector="spec.nodeName=")) == ["nowhere"]
    refused = http_("GET", PODS, fieldSelector="spec.priority=0")
    assert (refused.code, refused.json["message"]) == (400, "field label not supported: spec.priority")


def test_pages_show_one_state(http_) -> None:
    """What changes after the first page is not in the others; the last one has no token."""
    for number in range(5):
        http_("POST", MAPS, make_map(f"m{number}"))
    first = http_("GET", MAPS, limit="2")
    assert names(first) == ["m0", "m1"]
    assert first.json["metadata"]["remainingItemCount"] == 3
    http_("DELETE", f"{MAPS}/m2")
    http_("POST", MAPS, make_map("m25"))
    second = http_("GET", MAPS, limit="2", **{"continue": first.json["metadata"]["continue"]})
    third = http_("GET", MAPS, limit="2", **{"continue": second.json["metadata"]["continue"]})
    assert names(second) + names(third) == ["m2", "m3", "m4"]
    assert {each.json["metadata"]["resourceVersion"] for each in (first, second, third)} == {
        first.json["metadata"]["resourceVersion"]
    }
    assert "continue" not in third.json["metadata"]


def test_a_selected_list_does_not_tell_how_many_remain(http_, maps) -> None:
    """`remainingItemCount` is left out where a selector is given."""
    held = http_("GET", MAPS, limit="1", labelSelector="colour=red").json["metadata"]
    assert held["continue"]
    assert "remainingItemCount" not in held


def test_a_token_expires(cluster, http_, maps) -> None:
    """410 Expired, with a token that goes on at the newest state; a token that is none is 400."""
    token = http_("GET", MAPS, limit="2").json["metadata"]["continue"]
    cluster.compact()
    http_("POST", MAPS, make_map("cc"))
    cluster.compact()
    gone = http_("GET", MAPS, limit="2", **{"continue": token})
    assert (gone.code, gone.json["reason"]) == (410, "Expired")
    assert names(http_("GET", MAPS, limit="5", **{"continue": gone.json["metadata"]["continue"]})) == ["c", "cc", "d"]
    assert http_("GET", MAPS, limit="2", **{"continue": "nonsense"}).code == 400


def test_a_list_can_be_asked_for_at_a_version(cluster, http_, maps) -> None:
    """Exact shows the past while it is kept, then 410; NotOlderThan the newest; the future is 504."""
    then = http_("GET", MAPS).json["metadata"]["resourceVersion"]
    http_("DELETE", f"{MAPS}/a")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert names(http_("GET", MAPS, **exact)) == ["a", "b", "c", "d"]
    assert names(http_("GET", MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan")) == ["b", "c", "d"]
    assert names(http_("GET", MAPS, resourceVersion="0")) == ["b", "c", "d"]
    cluster.compact()
    assert http_("GET", MAPS, **exact).code == 410
    future = http_("GET", MAPS, resourceVersion=str(int(then) + 10**6))
    assert (future.code, future.json["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert http_("GET", MAPS, resourceVersion="x").code == 400
    assert http_("GET", MAPS, resourceVersionMatch="Exact").code == 422


def test_history_is_kept_for_a_while_only() -> None:
    """After `keep` further changes a version is forgotten."""
    from tests.kubernetes_api import Cluster, Fakes, Settings  # noqa: PLC0415  only here

    from .conftest import Http  # noqa: PLC0415  only here

    with Cluster(Fakes(), settings=Settings(keep=5)) as cluster:
        ask = Http(cluster.url)
        first = ask("POST", MAPS, make_map("a")).json["metadata"]["resourceVersion"]
        for number in range(20):
            ask("POST", MAPS, make_map(f"m{number}"))
        assert ask("GET", MAPS, resourceVersion=first, resourceVersionMatch="Exact").code == 410


def test_a_list_can_be_stale(cluster, http_) -> None:
    """What a test asks for: the next two lists show the state of now, the third one the newest."""
    http_("POST", JOBS, make_job("a", suspend=True))
    cluster.faults.stale_lists("jobs", times=2)
    http_("POST", JOBS, make_job("b", suspend=True))
    assert [names(http_("GET", JOBS)) for _ in range(3)] == [["a"], ["a"], ["a", "b"]]
    assert http_("GET", f"{JOBS}/b").code == 200
