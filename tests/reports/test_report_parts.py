"""What the report is made of: pictures, colours and numbers."""

import base64
import re
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from orchestrator.domain.outcomes import Forfeit
from orchestrator.reports import colours, evidence, formatting, pictures
from orchestrator.scoring import fault_texts


def decoded(uri: str) -> np.ndarray:
    """Returns the picture in a data URI."""
    return np.asarray(Image.open(BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))


def test_small_pictures_are_enlarged_without_smoothing():
    """An 8 x 8 digit becomes 128 x 128 with each pixel a square of 16."""
    digit = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    assert np.array_equal(decoded(pictures.data_uri(digit)), np.kron(digit[0], np.ones((16, 16), np.uint8)))


def test_colour_and_other_channels():
    """Three channels are red, green, blue; of two the mean is shown; large pictures keep their size."""
    colour = np.zeros((3, 200, 130), np.uint8)
    colour[0], colour[2] = 255, 7
    assert decoded(pictures.data_uri(colour)).shape == (200, 130, 3)
    assert tuple(decoded(pictures.data_uri(colour))[0, 0]) == (255, 0, 7)
    two = np.stack([np.full((128, 128), 10), np.full((128, 128), 20)]).astype(np.uint8)
    assert decoded(pictures.data_uri(two))[0, 0] == 15


@pytest.mark.parametrize("wrong", [np.zeros((8, 8), np.uint8), np.zeros((1, 8, 8)), np.zeros((1, 0, 8), np.uint8)])
def test_only_pictures_are_shown(wrong):
    """Anything but u8 [c, h, w] with pixels in it is refused."""
    with pytest.raises(ValueError, match="expected u8"):
        pictures.data_uri(wrong)


def test_difference_is_signed_centred_and_amplified():
    """Grey 128 is no change; +20 and -10 steps times 6 are 248 and 68; nothing overflows."""
    clean = np.array([[[100, 100, 100]]], np.uint8)
    changed, factor, largest = pictures.difference_picture(clean, np.array([[[120, 100, 90]]], np.uint8))
    assert changed.tolist() == [[[248, 128, 68]]]
    assert (factor, largest) == (6, 20)
    extremes = pictures.difference_picture(np.array([[[0, 255]]], np.uint8), np.array([[[255, 0]]], np.uint8))
    assert extremes[0].tolist() == [[[255, 0]]]
    assert extremes[1:] == (1, 255)
    assert pictures.difference_picture(clean, clean)[1:] == (1, 0)


def test_difference_needs_one_shape():
    """Pictures of two shapes have no difference."""
    with pytest.raises(ValueError, match="shape"):
        pictures.difference_picture(np.zeros((1, 8, 8), np.uint8), np.zeros((3, 8, 8), np.uint8))


@pytest.mark.parametrize("theme", colours.PALETTES)
def test_every_text_can_be_read(theme):
    """Contrast is at least 4.5 : 1 on every swatch and for every pair of the palette that meets."""
    assert all(colours.contrast(swatch.background, swatch.text) >= 4.5 for swatch in colours.scale(theme))
    palette = colours.PALETTES[theme]
    for ink in ("ink", "muted", "attack", "defence", "bad"):
        for back in ("page", "surface"):
            assert colours.contrast(palette[ink], palette[back]) >= 4.5, (ink, back)
    for ink, back in (
        *(("ink", name) for name in ("warn-back", "bad-back", "attack-back", "defence-back", "sunk")),
        *(("muted", name) for name in ("attack-back", "defence-back", "sunk")),
        ("warn", "warn-back"),
        ("bad", "bad-back"),
        ("surface", "attack"),
        ("surface", "defence"),
    ):
        assert colours.contrast(palette[ink], palette[back]) >= 4.5, (ink, back)


@pytest.mark.parametrize("theme", colours.PALETTES)
def test_scale_is_monotone(theme):
    """More accuracy is always farther from the page, so that the scale reads without seeing hue."""
    page = colours.PALETTES[theme]["page"]
    distances = [colours.contrast(swatch.background, page) for swatch in colours.scale(theme)]
    assert all(one < other for one, other in pairwise(distances))
    assert [colours.step(a) for a in (0.0, 0.5, 1.0, 1.5)] == [0, 10, 20, 20]


def test_power_is_rounded_down():
    """Nobody is told of more power than there is, and only certainty is 100 %."""
    assert [evidence.power_text(p) for p in (0.0, 0.4996, 0.99, 0.9899999, 0.99999, 1.0)] == [
        "0.0%",
        "49.9%",
        "99.0%",
        "98.9%",
        "99.9%",
        "100.0%",
    ]


def test_numbers_are_written_honestly():
    """Rounding never makes everything or nothing of almost; zero has no sign; units follow the size."""
    assert [formatting.percent(n, 10_000) for n in (0, 1, 7820, 9999, 10_000)] == [
        "0.0%",
        "0.1%",
        "78.2%",
        "99.9%",
        "100.0%",
    ]
    assert [formatting.signed(v) for v in (-0.04, -0.26, 3.0)] == ["0.0", "\N{MINUS SIGN}0.3", "3.0"]
    assert [formatting.duration(s) for s in (0.123, 119.0, 725.0, 11_250.0)] == [
        "0.12 s",
        "119.0 s",
        "12 min 05 s",
        "3 h 07 min",
    ]
    assert [formatting.byte_size(n) for n in (2048, 391 * 2**20, 2**31)] == ["2 KiB", "391 MiB", "2.0 GiB"]
    assert formatting.budget("l2", "17/2") == "L2 8.5/255"


def test_forfeits_are_told_by_reason():
    """Each reason has its line in our words; results that did not count reasons have none."""
    assert fault_texts.forfeit_lines({"shape": 1200, "budget": 1}) == ["1,200 wrong shape", "1 over the budget"]
    assert fault_texts.forfeit_lines({}) == fault_texts.forfeit_lines(None) == []
    assert set(fault_texts.FORFEIT_TEXTS) == {forfeit.reason for forfeit in Forfeit if forfeit}


def test_every_code_of_a_fault_has_our_words(document_text):
    """Each fault that the document lists for a submission is told in a sentence of ours, without a figure."""
    listed = document_text("limits-and-errors.md").split("\n## ")
    [faults] = [chapter for chapter in listed if "\n### reported\n" in chapter]
    codes = set(re.findall(r"^### (.+)$", faults, re.MULTILINE)) - {"submission"}
    assert codes == set(fault_texts.FAULT_TEXTS)
    sentences = (*fault_texts.FAULT_TEXTS.values(), fault_texts.OTHER_FAULT_TEXT)
    assert not [sentence for sentence in sentences if re.search(r"\d", sentence)]
    assert fault_texts.fault_text("made up") == fault_texts.OTHER_FAULT_TEXT
