"""The PNG codec of the files adapter: it reads what Pillow writes, writes what Pillow reads, and refuses the rest."""

import io
import struct
import zlib

import numpy as np
import pytest
import sparring_png
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sparring_png import SIGNATURE, Unusable, read_png, write_png


@pytest.fixture(params=["with Pillow", "without"], autouse=True, scope="module")
def pillow(request):
    """Every test runs in an image with Pillow and in one without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without":
            patch.setattr(sparring_png, "Image", None)
        yield


SHAPES = st.tuples(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9))
HEADER = b"IHDR"


def noise(shape: tuple, seed: int = 0) -> np.ndarray:
    """Returns a random picture, uint8 of `shape`."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    """Returns one part of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(shape: tuple, rows: bytes, *, colour: int | None = None, depth: int = 8, interlaced: int = 0) -> bytes:
    """Returns a PNG of rows with their filters, as they are."""
    channels, height, width = shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels] if colour is None else colour
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return SIGNATURE + chunk(HEADER, header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def filtered(picture: np.ndarray, filters: list[int]) -> bytes:
    """Returns a picture's rows under these filters, byte by byte as the specification of PNG defines them."""
    channels, height, width = picture.shape
    values = picture.transpose(1, 2, 0).reshape(height, -1).astype(int)
    made = bytearray()
    for row in range(height):
        made.append(filters[row])
        for at in range(width * channels):
            left = values[row, at - channels] if at >= channels else 0
            above = values[row - 1, at] if row else 0
            corner = values[row - 1, at - channels] if row and at >= channels else 0
            slope = left + above - corner
            nearest = min((left, above, corner), key=lambda each: abs(slope - each))
            guess = (0, left, above, (left + above) // 2, nearest)[filters[row]]
            made.append((values[row, at] - guess) % 256)
    return bytes(made)


def by_pillow(data: bytes) -> np.ndarray:
    """Returns what Pillow reads, channels first."""
    with Image.open(io.BytesIO(data)) as picture:
        found = np.asarray(picture)
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


@given(shape=SHAPES, seed=st.integers(0, 2**32), data=st.data())
def test_every_filter_is_undone(shape, seed, data):
    """A picture whose rows have any of the five filters is read as Pillow reads it, and as it was."""
    picture = noise(shape, seed)
    filters = data.draw(st.lists(st.integers(0, 4), min_size=shape[1], max_size=shape[1]))
    made = png(shape, filtered(picture, filters))
    assert np.array_equal(by_pillow(made), picture)
    assert np.array_equal(read_png(made, shape), picture)


@given(shape=SHAPES, seed=st.integers(0, 2**32))
def test_pillow_reads_what_is_written(shape, seed):
    """What is written is the picture to Pillow and to the codec itself."""
    picture = noise(shape, seed)
    made = write_png(picture)
    assert np.array_equal(by_pillow(made), picture)
    assert np.array_equal(read_png(made, shape), picture)


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"compress_level": 0}, {"compress_level": 9}])
@pytest.mark.parametrize("shape", [(1, 64, 37), (3, 299, 299)])
def test_what_pillow_saves_is_read(shape, options):
    """Smooth pictures, for which Pillow changes filters from row to row, come back."""
    across, down = np.arange(shape[2]), np.arange(shape[1])[:, None]
    smooth = [(across * (each + 1) + down * down // 7) // 3 % 256 for each in range(shape[0])]
    picture = np.stack(smooth).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(picture[0] if shape[0] == 1 else picture.transpose(1, 2, 0)).save(stream, "PNG", **options)
    assert np.array_equal(read_png(stream.getvalue(), shape), picture)


def test_an_opaque_alpha_channel_is_dropped():
    """Grey and colour with an alpha of 255 everywhere are read without it; a transparent pixel is refused."""
    for channels in (1, 3):
        shape = (channels, 5, 4)
        picture = np.concatenate([noise(shape), np.full((1, 5, 4), 255, np.uint8)])
        assert np.array_equal(read_png(png(picture.shape, filtered(picture, [4] * 5)), shape), picture[:-1])
        picture[-1, 2, 3] = 254
        with pytest.raises(Unusable, match="transparent in places"):
            read_png(png(picture.shape, filtered(picture, [0] * 5)), shape)


def test_grey_and_colour_stand_for_each_other_where_they_are_equal():
    """A colour PNG without colours passes for grey, a grey one for colour; a coloured one is refused in a grey task."""
    grey = noise((1, 5, 4))
    same = np.repeat(grey, 3, axis=0)
    assert np.array_equal(read_png(write_png(same), grey.shape), grey)
    assert np.array_equal(read_png(write_png(grey), same.shape), same)
    same[1, 2, 3] ^= 1
    with pytest.raises(Unusable, match="it has colours, and the task is grey"):
        read_png(write_png(same), grey.shape)


SHAPE = (1, 2, 3)
ROWS = bytes(2 * 4)
GOOD = png(SHAPE, ROWS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is no PNG"),
        (b"\xff\xd8\xff\xe0 JFIF", "it is no PNG"),
        (GOOD[:-1], "it ends in the middle"),
        (GOOD[:8], "it ends in the middle"),
        (GOOD[: GOOD.index(b"IDAT") + 6], "it ends in the middle"),
        (GOOD.replace(HEADER + b"\0", HEADER + b"\1", 1), "a checksum in it is wrong"),
        (SIGNATURE + chunk(b"IDAT", b"") + GOOD[8:], "it does not begin with its header, or has two"),
        (GOOD[:8] + GOOD[8:33] * 2 + GOOD[33:], "it does not begin with its header, or has two"),
        (SIGNATURE + chunk(HEADER, b"short") + GOOD[33:], "its header is malformed"),
        (GOOD[:33] + chunk(b"ODDS", b"") + GOOD[33:], "it has a part that no PNG has"),
        (png((1, 3, 2), bytes(9)), "it is 2 x 3, not 3 x 2"),
        (png((1, 2**31, 2**31), ROWS), "it is 2147483648 x 2147483648, not 3 x 2"),
        (png(SHAPE, ROWS, depth=16), "it has 16 bits of colour type 0"),
        (png(SHAPE, ROWS, colour=3), "it has 8 bits of colour type 3; write 8-bit grey or RGB"),
        (png(SHAPE, ROWS, colour=5), "it has 8 bits of colour type 5"),
        (png(SHAPE, ROWS, interlaced=1), "it is interlaced"),
        (png(SHAPE, ROWS[:-1]), "it holds less than the 8 bytes"),
        (png(SHAPE, ROWS + b"\0"), "it holds more than the 8 bytes"),
        (png(SHAPE, b"\5" + ROWS[1:]), "it has a filter 5"),
        (GOOD[:33] + GOOD[-12:], "it holds less than the 8 bytes"),
        (GOOD[:33] + chunk(b"IDAT", b"not deflated") + GOOD[-12:], "its rows cannot be inflated"),
        (GOOD[:33] + chunk(b"IDAT", zlib.compress(ROWS)[:-4]) + GOOD[-12:], "it holds less than the 8 bytes"),
    ],
)
def test_anything_else_is_refused(data, reason):
    """What is no such PNG is refused with what is wrong."""
    with pytest.raises(Unusable, match=reason):
        read_png(data, SHAPE)


def test_parts_that_do_not_matter_are_passed_over():
    """Comments, a colour table's suggestion and bytes behind the end change nothing; rows may come in several parts."""
    rows = zlib.compress(ROWS)
    body = (
        chunk(b"tEXt", b"Comment\0hello")
        + chunk(b"PLTE", bytes(3))
        + chunk(b"IDAT", rows[:3])
        + chunk(b"IDAT", rows[3:])
    )
    assert np.array_equal(read_png(GOOD[:33] + body + GOOD[-12:] + b"more", SHAPE), np.zeros(SHAPE, np.uint8))


@pytest.mark.slow
def test_a_bomb_is_not_inflated(monkeypatch):
    """Of rows that would be 64 MiB no more than the picture's own bytes, and one, are inflated."""
    bomb = zlib.compress(bytes(2**26), 9)
    assert len(bomb) < 2**17
    inflated = []

    class Watched:
        def __init__(self) -> None:
            self._own = real()

        def decompress(self, data: bytes, most: int) -> bytes:
            inflated.append(len(found := self._own.decompress(data, most)))
            return found

        @property
        def eof(self) -> bool:
            return self._own.eof

    real = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Watched)
    with pytest.raises(Unusable, match="it holds more than the 8 bytes"):
        read_png(GOOD[:33] + chunk(b"IDAT", bomb) + GOOD[-12:], SHAPE)
    assert inflated == [9]


PARTS = st.tuples(st.sampled_from([HEADER, b"IDAT", b"IEND", b"PLTE", b"tEXt"]), st.binary(max_size=20))


@pytest.mark.slow
@settings(max_examples=300)
@given(
    begun=st.sampled_from([b"", SIGNATURE, GOOD[:33]]), parts=st.lists(PARTS, max_size=5), rest=st.binary(max_size=40)
)
def test_whatever_comes_is_a_picture_or_refused(begun, parts, rest):
    """Of any bytes, with right checksums or not, comes a picture of the shape asked for or the one error of ours."""
    data = begun + b"".join(chunk(*part) for part in parts) + rest
    try:
        found = read_png(data, SHAPE)
    except Unusable:
        return
    assert found.shape == SHAPE
    assert found.dtype == np.uint8


@pytest.mark.slow
@settings(max_examples=300)
@given(places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
def test_damage_is_noticed(places):
    """A good PNG with some bits changed is refused, or the change was in no part that counts."""
    picture = noise((3, 4, 5))
    made = bytearray(write_png(picture))
    for place, change in places:
        made[place % len(made)] ^= change
    try:
        found = read_png(bytes(made), picture.shape)
    except Unusable:
        return
    assert np.array_equal(found, picture)
