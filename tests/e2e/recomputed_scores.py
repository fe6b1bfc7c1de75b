"""Computes the scores of C3 to C6 independently: with NumPy, from pictures and the hidden model's scores.

Windowed similarity uses skimage.
"""

import io
import zipfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import skimage
from PIL import Image


def decoded(path: Path) -> np.ndarray:
    """Returns the pictures of an archive in order, u8 [n, h, w, 3] or [n, h, w], decoded with Pillow."""
    with zipfile.ZipFile(path) as archive:
        names = {int(Path(name).stem): name for name in archive.namelist() if name.startswith("images/")}
        return np.stack([np.asarray(Image.open(io.BytesIO(archive.read(names[n])))) for n in sorted(names)])


def recomputed(
    before: np.ndarray, after: np.ndarray, labels: np.ndarray, clean: np.ndarray, logits: np.ndarray, rules: Mapping
) -> dict[str, str | None]:
    """Returns Score_M and its parts, each as the exact text on boards, None for none.

    Args:
        before: the originals, as `decoded` returns them.
        after: the submitted pictures.
        labels: the true classes [n].
        clean: the hidden model's scores on the originals [n, classes].
        logits: the hidden model's scores on the submitted pictures [n, classes].
        rules: `count`, `nte` and `ssim`, if they differ from the defaults.
    """
    logits = logits.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    second, first = np.sort(powers / powers.sum(axis=1, keepdims=True), axis=1)[:, -2:].T
    margins = first - second
    correct = rules.get("count") == "correct"
    counted = clean.argmax(axis=1) == labels if correct else np.ones(len(labels), bool)
    fooled = counted & (logits.argmax(axis=1) != labels)
    alike = np.array([_similarity(a, b, rules.get("ssim", "global")) for a, b in zip(before, after, strict=True)])
    tolerant = fooled if rules.get("nte") == "successful" else counted
    score = 0.0
    if fooled.any():
        score = 100 * (fooled.sum() / counted.sum()) * alike[fooled].mean() * margins[tolerant].mean()
    return {
        "asr": str(Fraction(100 * int(fooled.sum()), int(counted.sum()))),
        "ssim": _mean(alike, fooled),
        "nte": _mean(margins, tolerant),
        "nte_fooled": _mean(margins, fooled),
        "nte_unfooled": _mean(margins, counted & ~fooled),
        "score_m": _six(score),
    }


def _mean(values: np.ndarray, chosen: np.ndarray) -> str | None:
    return _six(values[chosen].mean()) if chosen.any() else None


def _six(number: float) -> str:
    return str(Fraction(f"{number:.6f}"))


def _similarity(before: np.ndarray, after: np.ndarray, reading: str) -> Any:
    """Returns the SSIM of two pictures u8 [h, w, 3] or [h, w]."""
    if reading == "windowed":
        return skimage.metrics.structural_similarity(
            before,
            after,
            channel_axis=2,
            data_range=255,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    (var_a, cov), (_, var_b) = np.cov(before.ravel().astype(float), after.ravel().astype(float))
    a, b = before.mean(), after.mean()
    return (2 * a * b + 6.5025) * (2 * cov + 58.5225) / ((a * a + b * b + 6.5025) * (var_a + var_b + 58.5225))
