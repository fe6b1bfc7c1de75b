"""numpy: linear algebra, Fourier transforms, random numbers, files, memory maps, pictures."""

import io
import tempfile
from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
a = rng.standard_normal((300, 300))
assert np.allclose(np.linalg.inv(a) @ a, np.eye(300), atol=1e-6)
assert np.allclose(np.fft.ifft(np.fft.fft(a)).real, a)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "a.npy")
    np.save(path, a)
    assert (np.load(path, mmap_mode="r") == a).all()
    mapped = np.memmap(Path(folder, "m"), dtype="u1", mode="w+", shape=(1000, 1000))
    mapped[:] = 3
    mapped.flush()
    assert mapped.sum() == 3_000_000
try:
    from PIL import Image
except ImportError:
    print("fine")
else:
    file = io.BytesIO()
    Image.fromarray((a[:32, :32] * 10 + 128).clip(0, 255).astype("u1")).save(file, "PNG")
    assert Image.open(io.BytesIO(file.getvalue())).resize((16, 16)).size == (16, 16)
    print("fine")
