"""The dataset `zip`: a task in the tree of an attack-set contest (C1)."""

import zipfile

import pytest
from pydantic import ValidationError

from orchestrator import plugins


@pytest.fixture
def put_zip(tmp_path):
    """Puts pictures and labels into set.zip."""

    def put(labels: str, pictures: dict[str, bytes]) -> str:
        with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
            for name, data in pictures.items():
                archive.writestr(f"images/{name}", data)
            archive.writestr("label.txt", labels)
        return "set.zip"

    return put


@pytest.fixture
def original_files(tmp_path):
    """Returns the files of the pictures that a contest file asks for."""

    def read(kind: str, **options):
        found = plugins.load_plugin("datasets", kind)
        return found().original_files(found.options_type.model_validate(options), tmp_path)

    return read


def test_pictures_come_in_the_order_of_the_labels(load, put_zip, picture) -> None:
    """The order is label.txt's; numbers are classes as they are."""
    path = put_zip("b.png 1\na.png 0\n", {"a.png": picture(10), "b.png": picture(20)})
    samples = load("zip", path=path)
    assert samples.pixels.shape == (2, 1, 3, 4)
    assert samples.pixels[:, 0, 0, 0].tolist() == [20, 10]
    assert (samples.labels.tolist(), samples.classes) == ([1, 0], ("0", "1"))


def test_classes_can_be_words(load, put_zip, picture) -> None:
    """Words become classes in alphabetical order, or in the order that the contest file gives."""
    path = put_zip("0.png dog\n1.png cat\n", {"0.png": picture(), "1.png": picture()})
    assert load("zip", path=path).labels.tolist() == [1, 0]
    assert load("zip", path=path, classes=["dog", "cat"]).labels.tolist() == [0, 1]


@pytest.mark.parametrize("label", ["cow", "2", "-1"])
def test_a_class_that_there_is_not_is_refused(problems, put_zip, picture, label) -> None:
    """The error names the line and the classes."""
    path = put_zip(f"0.png dog\n1.png {label}\n", {"0.png": picture(), "1.png": picture()})
    assert problems("zip", path=path, classes=["cat", "dog"]) == [
        f"label.txt line 2: unknown class '{label}'; use one of cat, dog"
    ]


def test_what_the_folder_passes_over_is_refused(load, problems, put_zip, picture) -> None:
    """Every file of the zip is a picture of the task."""
    path = put_zip("0.png 0\n", {"0.png": picture(), "1.png": picture()})
    assert len(load("folder", path=path)) == 1
    assert problems("zip", path=path) == ["images/1.png: not in label.txt; list it, or remove it"]


@pytest.mark.parametrize("name", ["missing.zip", "."])
def test_a_zip_that_is_not_there_is_refused(problems, tmp_path, name) -> None:
    """The remedy says where paths begin."""
    [problem] = problems("zip", path=name)
    assert problem.startswith(str(tmp_path / name))
    assert problem.endswith("give the path of a zip, relative to the contest file")


@pytest.mark.parametrize("options", [{}, {"path": "set.zip", "mode": "L"}])
def test_the_options_are_strict(load, options) -> None:
    """A path has to be there, and foreign keys are refused."""
    with pytest.raises(ValidationError):
        load("zip", **options)


def test_the_files_of_the_chosen_pictures_can_be_had(original_files, load, put_zip, picture) -> None:
    """In the order of the samples; none where pictures were resized or are no files."""
    pictures = {f"{n}.png": picture(n, size=(4, 4)) for n in range(4)}
    path = put_zip("3.png cat\n1.png dog\n0.png cow\n2.png cat\n", pictures)
    assert original_files("zip", path=path) == tuple(pictures[f"{n}.png"] for n in (3, 1, 0, 2))
    chosen = {"path": path, "only": ["cow", "cat"], "first": 2}
    assert original_files("zip", **chosen) == (pictures["3.png"], pictures["0.png"])
    assert load("zip", **chosen).pixels[:, 0, 0, 0].tolist() == [3, 0]
    assert original_files("zip", path=path, side=2) is None
    assert original_files("digits") is None
