"""Copies of images that are removed: what the engine says, and what is there afterwards."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.docker.images import image_copy


class Removing:
    """An engine that fails to remove an image, which is gone afterwards, or not."""

    path = "/nowhere"

    def __init__(self, *, gone: bool) -> None:
        self._gone = gone

    def version(self):
        """Returns a version."""
        return "1.41"

    def image(self, reference):
        """Returns the image, while it is there."""
        return None if self._gone else {"Id": reference}


@pytest.mark.parametrize("gone", [True, False])
def test_whose_copy_another_removed_is_done(monkeypatch, gone):
    """Two orchestrators sweep what a dead one left: the engine fails one of them, and the copy is gone all the same."""
    lost = SandboxLost("DELETE: 500 unrecognized image ID")
    monkeypatch.setattr(image_copy, "untag_image", Mock(side_effect=lost))
    with nullcontext() if gone else pytest.raises(SandboxLost, match="docker image rm sha256:copy") as caught:
        image_copy.remove_copy(Removing(gone=gone), "sha256:copy")
    assert gone or caught.value.__cause__ is lost
