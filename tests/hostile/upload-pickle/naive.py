"""Loads the archive with pickles allowed."""

import json
import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
with np.load(folder / "upload.npz", allow_pickle=True) as archive:
    images = archive["images"]
harm = (folder.parent / "escaped").exists()
print(json.dumps({"harm": harm, "evidence": "the upload's code ran" if harm else f"{images.shape}, and nothing ran"}))
