"""The handwritten digits that scikit-learn ships: 1797 pictures of 8 x 8, ten classes.

Source: UCI "Optical Recognition of Handwritten Digits", test part (E. Alpaydin, C. Kaynak, 1998). Values 0..16 become
round(v x 255 / 16). The split is fixed: 500 test pictures, stratified, seed 0; the other 1297 are for training.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from orchestrator.datasets.base import Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.errors import Problem, Rejected

TEST_PICTURES = 500


class DigitsOptions(Options):
    """Which part of the digits."""

    split: Literal["test", "train"] = "test"


class DigitsDataset(Dataset[DigitsOptions]):
    """scikit-learn's digits."""

    name = "digits"
    options_type = DigitsOptions

    def read(self, options: DigitsOptions, folder: Path) -> Samples:
        """Returns pictures u8 [n, 1, 8, 8] in the split's order."""
        del folder
        try:
            # Imported here: it takes a second, and only this dataset needs it.
            from sklearn.datasets import load_digits  # noqa: PLC0415
            from sklearn.model_selection import train_test_split  # noqa: PLC0415
        except ImportError:
            remedy = "pip install 'sparring[digits]'"
            raise Rejected("dataset digits", [Problem("dataset", "scikit-learn is not installed", remedy)]) from None
        images, labels = load_digits(return_X_y=True)
        train, test, train_labels, test_labels = train_test_split(
            images, labels, test_size=TEST_PICTURES, random_state=0, stratify=labels
        )
        chosen, chosen_labels = (test, test_labels) if options.split == "test" else (train, train_labels)
        pixels = np.rint(chosen * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
        return make_samples("dataset digits", pixels, chosen_labels, options.classes or [str(d) for d in range(10)])


plugin = DigitsDataset
