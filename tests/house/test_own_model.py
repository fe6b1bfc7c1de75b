"""What docs/your-own-model.md says works, with pictures of CIFAR-10's shape."""

import numpy as np
import pytest

from .conftest import blocks_of

pytestmark = pytest.mark.slow
NOT_RUN, GOES_INTO = "not run by the tests: ", "goes into "


def write_pictures(path, count: int) -> None:
    """Writes pictures of ten classes, each with a brightness of its own."""
    labels = np.arange(count) % 10
    noise = np.random.default_rng(0).integers(0, 20, (count, 32, 32, 3))
    np.savez(path, images=(noise + 22 * labels[:, None, None, None]).astype(np.uint8), labels=labels)


@pytest.mark.timeout(600)
def test_a_model_and_an_attack_of_a_library_pass_the_check(document, shell, tmp_path) -> None:
    """Every line that is not marked works in its order, and both players would be received."""
    work = tmp_path / "work"
    write_pictures(work / "train.npz", 200)
    write_pictures(work / "eval.npz", 40)
    printed = ""
    for block in blocks_of(document("your-own-model.md")):
        if block.mark.startswith(GOES_INTO):
            (work / block.mark.removeprefix(GOES_INTO)).write_text(block.text)
        elif block.kind == "sh" and not block.mark:
            printed += shell(block.text)
    assert printed.count("it would be received") == 2


def test_what_is_not_run_says_why(document) -> None:
    """Each marked block of the page goes into a file, or gives its reason."""
    marks = [block.mark for block in blocks_of(document("your-own-model.md")) if block.mark]
    reasons = [mark for mark in marks if not mark.startswith(GOES_INTO)]
    assert all(mark.startswith(NOT_RUN) and len(mark) > len(NOT_RUN) + 20 for mark in reasons)
