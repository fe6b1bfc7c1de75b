"""A small task for whole jobs in containers, and images of players for it: which quarter of a picture is brightest?"""

import functools
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import docker
import numpy as np

from orchestrator.domain.samples import Samples
from tests import plain_player
from tests.small_image import small_base_image

PLAYER = Path(__file__).parents[1] / "e2e" / "players" / "player.py"
PICTURES = 16


def samples() -> Samples:
    """Returns pictures u8 [16, 1, 4, 4] whose label is their brightest quarter; the first one has a speck."""
    chance = np.random.default_rng(7)
    labels = np.arange(PICTURES) % 4
    pixels = np.full((PICTURES, 1, 4, 4), 100, np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        row, column = divmod(int(label), 2)
        picture[0, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.uint8(chance.integers(10, 80))
    pixels[0, 0, 0, 0] = 255
    return Samples(pixels, labels, ("a", "b", "c", "d"))


def builder(engine: docker.DockerClient) -> Callable[[str], str]:
    """Returns `image(submission)`: the id of an image whose player behaves as its name says, such as defence_crashes.

    Each is built once: if another worker builds the same, a second build would give the other's id.
    """

    @functools.cache
    def image(name: str) -> str:
        side, _, behaviour = name.partition("_")
        command = json.dumps(["python", "/player/player.py", side, behaviour])
        files = plain_player.files(behaviour, PLAYER)
        recipe = f"FROM {small_base_image(numpy=PLAYER in files)}\nCOPY *.py /player/\nCMD {command}\n"
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name_, content in (
                ("Dockerfile", recipe.encode()),
                *((file.name, file.read_bytes()) for file in files),
            ):
                entry = tarfile.TarInfo(name_)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        archive.seek(0)
        tag = f"sparring-test/player:{side}-{behaviour}"
        built, _ = engine.images.build(fileobj=archive, custom_context=True, network_mode="none", tag=tag, forcerm=True)
        return str(built.id)

    return image
