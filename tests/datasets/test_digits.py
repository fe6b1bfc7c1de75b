"""The digits that scikit-learn ships, in the split that the reference models were measured on."""

import hashlib
import importlib.metadata
import json

import numpy as np
import pytest
from pydantic import ValidationError

from orchestrator.datasets import digits


@pytest.fixture(scope="module")
def raw():
    """All 1797 digits, values 0 to 16."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  every worker reads this file, one runs the tests

    return load_digits()


def test_the_test_part_is_500_pictures(load):
    """u8 [500, 1, 8, 8] in ten classes named 0 to 9, every class about fifty times, in the order of the split."""
    samples = load("digits")
    assert (samples.pixels.dtype, samples.pixels.shape) == (np.uint8, (500, 1, 8, 8))
    assert samples.classes == tuple("0123456789")
    assert np.bincount(samples.labels).tolist() == [50, 51, 49, 51, 50, 51, 50, 50, 48, 50]
    assert hashlib.sha256(samples.labels.astype("<i8").tobytes()).hexdigest().startswith("bd2e9b7c2aa9b6b5")


@pytest.mark.data
def test_the_split_is_the_reference_models(load, shared_data):
    """Label counts and their order are those that stand beside the reference models."""
    stated = json.loads((shared_data / "digits" / "models" / "model.json").read_text())
    labels = load("digits").labels
    assert np.bincount(labels).tolist() == stated["test_label_counts"]
    found = hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
    assert found.startswith(stated["test_labels_int64_sha256_prefix"])


def test_the_two_parts_are_all_digits(load, raw):
    """Test and training part together are the 1797 digits, each once, with their labels."""
    parts = [load("digits", split=split) for split in ("test", "train")]
    assert [len(part) for part in parts] == [500, 1297]
    # Half to even, like the rounding that the documents write: 8 x 255 / 16 = 127.5 becomes 128.
    scaled = [round(value * 255 / 16) for value in range(17)]
    expected = sorted(
        (int(label), bytes(scaled[int(value)] for value in picture))
        for picture, label in zip(raw.data, raw.target, strict=True)
    )
    found = [(int(y), x.tobytes()) for part in parts for x, y in zip(part.pixels, part.labels, strict=True)]
    assert sorted(found) == expected
    assert scaled[8] == 128


def test_the_split_is_scikit_learns(load, raw):
    """The order on file is what `train_test_split` gives, stratified, with seed 0."""
    from sklearn.model_selection import train_test_split  # noqa: PLC0415  as above

    parts = train_test_split(raw.data, raw.target, test_size=500, random_state=0, stratify=raw.target)
    for split, pictures, labels in (("test", parts[1], parts[3]), ("train", parts[0], parts[2])):
        found = load("digits", split=split)
        assert (found.pixels == np.rint(pictures * (255 / 16)).reshape(-1, 1, 8, 8)).all()
        assert (found.labels == labels).all()


@pytest.mark.parametrize("missing", ["distribution", "file"])
def test_without_scikit_learn_the_remedy_is_named(problems, monkeypatch, missing):
    """Not installed, or without the file where it is expected: one error that says what to install."""

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    if missing == "distribution":
        monkeypatch.setattr(digits.importlib.metadata, "distribution", absent)
    else:
        monkeypatch.setattr(digits, "_DATA_FILE", "sklearn/datasets/data/none.csv.gz")
    [problem] = problems("digits")
    assert problem.startswith("dataset: scikit-learn's digits are not there: ")
    assert problem.endswith("; pip install 'sparring[digits]'")


def test_the_split_is_fixed(load):
    """Loading again gives the same digest, and `first` the same beginning."""
    samples = load("digits")
    assert samples.digest == load("digits").digest
    assert load("digits", first=7).digest == samples.first(7).digest


@pytest.mark.parametrize("options", [{"split": "all"}, {"first": 0}, {"classes": ["one"]}, {"path": "x"}])
def test_the_options_are_strict(load, options):
    """Another split, no pictures, one class or a foreign key are refused."""
    with pytest.raises(ValidationError):
        load("digits", **options)


def test_fewer_classes_than_digits_are_refused(problems):
    """Two names do not cover labels up to 9."""
    [problem] = problems("digits", classes=["even", "odd"])
    assert problem == "labels: labels from 0 to 9; use 0 to the number of classes minus 1"
