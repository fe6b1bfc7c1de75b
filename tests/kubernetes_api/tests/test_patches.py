"""The patches that the test cluster takes.

Kubernetes documentation: API concepts, "Patch"; "Update API Objects in Place Using kubectl patch"; RFC 6902; RFC 7386.
"""

import pytest

from .conftest import JOBS, MAPS, make_job, make_map

JSON, MERGE, STRATEGIC = (f"application/{name}+json" for name in ("json-patch", "merge-patch", "strategic-merge-patch"))


@pytest.fixture
def patch(http_):
    """Returns `patch(body, media)`, which patches a config map with the data k=1 and a label."""
    http_("POST", MAPS, make_map("a", {"colour": "red"}, k="1"))
    return lambda body, media: http_("PATCH", f"{MAPS}/a", body, media=media)


def test_a_merge_patch_sets_and_removes(patch) -> None:
    """Null removes; what is not named stays."""
    answer = patch({"data": {"k": None, "l": "2"}, "metadata": {"labels": {"size": "1"}}}, MERGE)
    assert answer.json["data"] == {"l": "2"}
    assert answer.json["metadata"]["labels"] == {"colour": "red", "size": "1"}


def test_a_json_patch_does_all_or_nothing(patch) -> None:
    """Operations in their order; one that does not fit undoes all: 422."""
    done = patch([{"op": "add", "path": "/data/l", "value": "2"}, {"op": "remove", "path": "/data/k"}], JSON)
    assert done.json["data"] == {"l": "2"}
    patch([{"op": "add", "path": "/metadata/annotations", "value": {"example.org/x": "1"}}], JSON)
    where = "/metadata/annotations/example.org~1"
    moved = patch([{"op": "move", "from": f"{where}x", "path": f"{where}y"}], JSON)
    assert moved.json["metadata"]["annotations"] == {"example.org/y": "1"}
    wrong = [
        {"op": "replace", "path": "/metadata/labels/colour", "value": "blue"},
        {"op": "remove", "path": "/data/no"},
    ]
    assert patch(wrong, JSON).code == 422
    tested = [{"op": "test", "path": "/metadata/labels/colour", "value": "blue"}]
    assert patch(tested, JSON).code == 422
    assert patch([{"op": "test", "path": "/metadata/labels/colour", "value": "red"}], JSON).code == 200


@pytest.mark.parametrize("body", [{"op": "add"}, [{"op": "add"}], [{"op": "burn", "path": "/data"}]])
def test_what_is_no_json_patch_is_refused(patch, body) -> None:
    """400."""
    assert patch(body, JSON).code == 400


def test_a_strategic_patch_merges_lists_by_their_key(http_) -> None:
    """Conditions by type, finalizers as a set, with `$deleteFromPrimitiveList`, as controllers send them."""
    http_("POST", JOBS, make_job("a", suspend=True, managedBy="example.org/test"))
    place = f"{JOBS}/a/status"

    def add(kind: str, state: str) -> dict:
        return {"status": {"conditions": [{"type": kind, "status": state}]}}

    http_("PATCH", place, add("One", "True"), media=STRATEGIC)
    http_("PATCH", place, add("Two", "True"), media=STRATEGIC)
    found = http_("PATCH", place, add("One", "False"), media=STRATEGIC).json["status"]["conditions"]
    assert [(each["type"], each["status"]) for each in found] == [("One", "False"), ("Two", "True")]
    gone = {"status": {"conditions": [{"type": "One", "$patch": "delete"}]}}
    found = http_("PATCH", place, gone, media=STRATEGIC).json["status"]["conditions"]
    assert [each["type"] for each in found] == ["Two"]
    for name in ("a", "b"):
        http_("PATCH", f"{JOBS}/a", {"metadata": {"finalizers": [f"example.org/{name}"]}}, media=STRATEGIC)
    taken = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.org/a"]}}
    answer = http_("PATCH", f"{JOBS}/a", taken, media=STRATEGIC).json
    assert answer["metadata"]["finalizers"] == ["example.org/b"]


def test_a_merge_patch_replaces_lists(http_) -> None:
    """The difference between the two."""
    http_("POST", JOBS, make_job("a", suspend=True, managedBy="example.org/test"))
    for kind in ("One", "Two"):
        body = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        answer = http_("PATCH", f"{JOBS}/a/status", body, media=MERGE)
    assert [each["type"] for each in answer.json["status"]["conditions"]] == ["Two"]


def test_a_patch_with_a_version_is_an_optimistic_lock(patch) -> None:
    """Another version than the stored one is 409; none patches whatever is there."""
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "2"}}
    assert patch(stale, MERGE).code == 409
    assert patch({"data": {"k": "2"}}, MERGE).code == 200


def test_a_patch_cannot_rename_or_move(patch) -> None:
    """Names, uids and creation times stay; a patch that makes nonsense is refused as a body would be."""
    assert patch({"metadata": {"name": "b"}}, MERGE).code == 422
    assert patch({"metadata": {"uid": "b"}}, MERGE).code == 409
    kept = patch({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}}, MERGE)
    assert kept.code == 200
    assert not kept.json["metadata"]["creationTimestamp"].startswith("2001")
    assert patch({"data": {"k": 1}}, MERGE).code == 400
    assert patch({"metadata": {"labels": {"a b": "c"}}}, MERGE).code == 422


def test_server_side_apply_is_refused_by_name(patch) -> None:
    """415, which says what is taken."""
    answer = patch(b"{}", "application/apply-patch+yaml")
    assert answer.code == 415
    assert MERGE in answer.json["message"]
