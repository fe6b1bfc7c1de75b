"""Pictures and labels in a NumPy archive."""

import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.datasets.base import MAX_TOTAL_BYTES, Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

_READ_ERRORS = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(ValueError, OverflowError, MemoryError),  # a header that is invalid, has objects, or is too large
    RuntimeError,  # encrypted, or an unknown compression
)
"""Errors that zipfile and NumPy raise for a damaged file, or one that is not an archive."""


class NpzOptions(Options):
    """The archive, and the names of its arrays."""

    path: str
    images: str = "images"
    labels: str = "labels"


class NpzDataset(Dataset[NpzOptions]):
    """An `.npz` with u8 pictures and integer labels; pickled members are refused."""

    name = "npz"
    options_type = NpzOptions

    def read_samples(self, options: NpzOptions, folder: Path) -> Samples:
        """Returns the archive's samples, in its order."""
        path = folder / options.path
        subject = f"dataset {options.path}"
        try:
            with zipfile.ZipFile(path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
                missing = [
                    Problem(
                        wanted_name, "no such array", f"the archive holds {printable(', '.join(names)) or 'nothing'}"
                    )
                    for wanted_name in (options.images, options.labels)
                    if wanted_name not in names
                ]
                if missing:
                    raise Rejected(subject, missing)
                pixels, labels = _read_array(archive, options.images), _read_array(archive, options.labels)
        except _READ_ERRORS as error:
            remedy = "give the path of an .npz file, relative to the contest file"
            reason = printable(str(error)) or type(error).__name__
            raise Rejected(subject, [Problem(str(path), reason, remedy)]) from error
        return make_samples(subject, pixels, labels, options.classes)


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    size = archive.getinfo(f"{name}.npy").file_size  # no more than this is ever unpacked
    if size > MAX_TOTAL_BYTES:
        raise ValueError(f"{name} unpacks to {size} bytes, at most {MAX_TOTAL_BYTES}")
    with archive.open(f"{name}.npy") as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array


plugin = NpzDataset
