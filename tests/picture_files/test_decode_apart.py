"""A stranger's picture is decoded in a process of its own, within limits."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from orchestrator.domain.submissions import PictureFormat
from orchestrator.picture_files import decode_apart
from orchestrator.picture_files.decode_apart import decode_picture_apart
from orchestrator.picture_files.picture import PictureRefused

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 4), np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """Returns a picture [c, h, w] as a PNG."""
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


def test_pixels_come_back_as_they_are() -> None:
    """The process returns what decoding here would."""
    assert np.array_equal(decode_picture_apart(png(PIXELS), {PictureFormat.PNG}, (3, 5, 4)), PIXELS)


def test_a_refusal_comes_back_with_its_remedy() -> None:
    """What the process refuses is refused here in the same words."""
    with pytest.raises(PictureRefused, match="4 x 5 pixels, and has to be 8 x 8") as refused:
        decode_picture_apart(png(PIXELS), {PictureFormat.PNG}, (3, 8, 8))
    assert refused.value.remedy


def test_a_decoder_that_ends_refuses_its_picture(monkeypatch) -> None:
    """Where the process ends at a limit or by a signal, the picture is refused and nothing else is hurt."""
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    ran = subprocess.run
    monkeypatch.setattr(decode_apart.subprocess, "run", lambda _, **how: ran(killed, **how))
    with pytest.raises(PictureRefused, match="ends its decoder"):
        decode_picture_apart(png(PIXELS), {PictureFormat.PNG}, (3, 5, 4))


def test_the_process_has_no_secret(monkeypatch) -> None:
    """Of the service's environment it is given only what Python needs."""
    monkeypatch.setenv("SPARRING_DATABASE", "postgresql://somebody:secret@host/accounts")
    told = [
        sys.executable,
        "-c",
        "import json, os, sys; sys.stdout.write(json.dumps([str(dict(os.environ))] * 2)); sys.exit(3)",
    ]
    ran = subprocess.run
    monkeypatch.setattr(decode_apart.subprocess, "run", lambda _, **how: ran(told, **how))
    with pytest.raises(PictureRefused) as refused:
        decode_picture_apart(png(PIXELS), {PictureFormat.PNG}, (3, 5, 4))
    assert "PATH" in str(refused.value)
    assert "secret" not in str(refused.value)
