"""Pictures in folders and zips, good ones and hostile ones."""

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orchestrator import plugins
from orchestrator.datasets.base import Dataset
from orchestrator.domain.samples import Samples
from orchestrator.errors import Rejected

Load = Callable[..., Samples]


def picture(value: int = 0, *, size: tuple[int, int] = (4, 3), mode: str = "L", kind: str = "PNG") -> bytes:
    """Returns the bytes of a picture of one value, `size` wide and high."""
    out = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(out, kind)
    return out.getvalue()


@pytest.fixture(scope="session", name="picture")
def make_picture() -> Callable[..., bytes]:
    """Makes the bytes of a picture."""
    return picture


@pytest.fixture
def load(tmp_path) -> Load:
    """Loads a dataset of that kind from the test's folder, as a contest file would ask for it."""

    def read(kind: str, **options: Any) -> Samples:
        found: type[Dataset[Any]] = plugins.load_plugin("datasets", kind)
        return found().load_samples(found.options_type.model_validate(options), tmp_path)

    return read


@pytest.fixture
def problems(load) -> Callable[..., list[str]]:
    """Returns the problems with which a dataset is refused, as text."""

    def refused(kind: str, **options: Any) -> list[str]:
        with pytest.raises(Rejected) as caught:
            load(kind, **options)
        return [str(problem) for problem in caught.value.problems]

    return refused


@pytest.fixture(params=["folder", "zip"])
def put(request, tmp_path) -> Callable[..., str]:
    """Puts pictures and labels into a folder or a zip, once each, and returns its name."""

    def store(labels: str | bytes | None, pictures: Mapping[str, bytes]) -> str:
        files = {f"images/{name}": data for name, data in pictures.items()}
        if labels is not None:
            files["label.txt"] = labels.encode() if isinstance(labels, str) else labels
        if request.param == "zip":
            with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in files.items():
                    archive.writestr(name, data)
            return "set.zip"
        (tmp_path / "set" / "images").mkdir(parents=True)
        for name, data in files.items():
            (tmp_path / "set" / name).write_bytes(data)
        return "set"

    return store


@pytest.fixture
def archive(tmp_path) -> Callable[..., Path]:
    """Saves arrays as set.npz."""

    def save(**arrays: Any) -> Path:
        path = tmp_path / "set.npz"
        np.savez_compressed(path, **arrays)
        return path

    return save
