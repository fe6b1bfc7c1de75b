"""The handwritten digits that scikit-learn ships: 1797 pictures of 8 x 8, ten classes.

Source: UCI "Optical Recognition of Handwritten Digits", test part (E. Alpaydin, C. Kaynak, 1998). Values 0..16 become
round(v x 255 / 16). The split is fixed: 500 test pictures, stratified, seed 0; the other 1297 are for training.

scikit-learn's data file is read without importing scikit-learn, which would take a second or two in every process that
needs pictures. `digits_split.txt` has the row numbers of that file in the order of `train_test_split`: the test
pictures, then those for training.
"""

import importlib.metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orchestrator.datasets.base import Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.errors import Problem, Rejected

TEST_PICTURES = 500
_DATA_FILE = "sklearn/datasets/data/digits.csv.gz"
_SPLIT_FILE = Path(__file__).with_name("digits_split.txt")


class DigitsOptions(Options):
    """The part of the digits."""

    split: Literal["test", "train"] = "test"


class DigitsDataset(Dataset[DigitsOptions]):
    """scikit-learn's digits."""

    name = "digits"
    options_type = DigitsOptions

    def read_samples(self, options: DigitsOptions, folder: Path) -> Samples:
        """Returns pictures u8 [n, 1, 8, 8] in the split's order."""
        del folder
        rows = np.array([int(row) for row in _SPLIT_FILE.read_text("ascii").split()])
        chosen = rows[:TEST_PICTURES] if options.split == "test" else rows[TEST_PICTURES:]
        table = _read_table()[chosen]
        pixels = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
        classes = options.classes or [str(digit) for digit in range(10)]
        return make_samples("dataset digits", pixels, table[:, -1].astype(np.int64), classes)


def _read_table() -> NDArray[Any]:
    """Returns scikit-learn's table [1797, 65]: 64 values of a picture, row by row, and its digit.

    Raises:
        Rejected: scikit-learn is not installed, or has the file in another place.
    """
    try:
        found = importlib.metadata.distribution("scikit-learn").locate_file(_DATA_FILE)
        return np.loadtxt(str(found), delimiter=",")
    except (importlib.metadata.PackageNotFoundError, OSError) as error:
        problem = Problem("dataset", f"scikit-learn's digits are not there: {error}", "pip install 'sparring[digits]'")
        raise Rejected("dataset digits", [problem]) from error


plugin = DigitsDataset
