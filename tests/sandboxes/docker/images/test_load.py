"""What is left of an image's configuration when it is brought in."""

import json
import os
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import InfrastructureFault, Rejected
from orchestrator.sandboxes.base import ImageLayer
from orchestrator.sandboxes.docker.engine_http import EngineRefusal
from orchestrator.sandboxes.docker.images import load
from orchestrator.sandboxes.image_files import image_config

LAYER = "sha256:" + "0" * 64
WHOLE = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [LAYER]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ALLOWED = {"Entrypoint", "Cmd", "Env", "WorkingDir"}


def plain(**config):
    """Returns what is left of a configuration whose inner part says this."""
    return json.loads(image_config.normalise_config(WHOLE | {"config": config}))


def test_only_what_a_player_needs_is_left():
    """How it starts, where, and its environment; nothing else that Docker or anybody else knows."""
    given = {"Entrypoint": ["a"], "Cmd": ["b"], "WorkingDir": "/w", "Env": ["A=1", "LD_PRELOAD=x", "http_proxy=y", "B"]}
    others = {"Volumes": {"/v": {}}, "Healthcheck": {"Test": ["CMD", "x"]}, "OnBuild": ["RUN x"], "Labels": {"a": "b"}}
    found = plain(
        **given, **others, User="0", StopSignal="9", ExposedPorts={"1/tcp": {}}, Shell=["/x"], ArgsEscaped=True
    )
    assert found == WHOLE | {"config": {"Entrypoint": ["a"], "Cmd": ["b"], "WorkingDir": "/w", "Env": ["A=1", "B="]}}


def test_what_is_plain_stays_as_it_is():
    """A second time changes no byte, so the digest of a packed configuration is the id that it gets."""
    once = image_config.normalise_config(
        WHOLE | {"config": {"Cmd": ["x"], "Env": ["A=1"]}, "created": "now", "history": []}
    )
    assert image_config.normalise_config(json.loads(once)) == once


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"config": {"Cmd": "sh"}}, "Cmd"),
        ({"config": {"Entrypoint": [1]}}, "Entrypoint"),
        ({"config": {"Env": ["A=\0"]}}, "Env"),
        ({"config": {"WorkingDir": 5}}, "WorkingDir"),
        ({"architecture": "amd64/../x"}, "platform"),
        ({"os": None}, "platform"),
        ({"rootfs": None}, "rootfs"),
        ({"rootfs": {"diff_ids": []}}, "rootfs"),
        ({"rootfs": {"diff_ids": [LAYER] * 121}}, "rootfs"),
        ({"rootfs": {"diff_ids": ["../x"]}}, "rootfs"),
    ],
)
def test_what_is_not_of_its_type_is_refused(change, place):
    """A configuration that no builder writes is refused, with the place."""
    with pytest.raises(Rejected) as caught:
        image_config.normalise_config(WHOLE | change)
    assert [problem.place for problem in caught.value.problems] == [place]


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from([*WHOLE, "config", "history", "id"]), JSON),
    st.dictionaries(st.sampled_from([*ALLOWED, "User"]), JSON),
)
def test_nothing_else_ever_gets_through(outer, inner):
    """Whatever is said, the result has the allowed keys, or it is refused."""
    try:
        found = json.loads(image_config.normalise_config(WHOLE | outer | {"config": inner}))
    except Rejected:
        return
    assert found.keys() == {"architecture", "os", "config", "rootfs"}
    assert found["config"].keys() <= ALLOWED
    assert found["rootfs"].keys() == {"type", "diff_ids"}


def test_layers_are_those_of_the_configuration():
    """Other layers than the configuration names are refused before anything is sent."""
    with pytest.raises(Rejected, match="not those that its configuration names"):
        load.load_image(None, WHOLE, [], "x:1")


@pytest.mark.parametrize(
    ("words", "free", "fault"),
    [
        ("open /no space left on device/x: not a directory", 0, Rejected),
        ("link /no space left on device /a: no such file or directory", 0, Rejected),
        ("write /x: no space left on device", 0, InfrastructureFault),
        ("no space left on device", 10**12, Rejected),
    ],
)
def test_no_name_of_a_file_makes_a_refusal_ours(monkeypatch, words, free, fault):
    """What the engine cannot unpack is refused, and not tried again and again because of what its files are called."""

    @contextmanager
    def refused(*_, **__):
        raise EngineRefusal(f"Error processing tar file(exit status 1): {words}")
        yield

    monkeypatch.setattr(load, "engine_request", refused)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1, f_files=0, f_favail=0))
    engine = SimpleNamespace(path="", version=lambda: "1.41", info=dict)
    with pytest.raises(fault):
        load.load_image(engine, WHOLE, [ImageLayer(LAYER, 0, lambda: iter(()))], "x:1")
