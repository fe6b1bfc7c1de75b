"""How a defence may look at pictures, int64 [n, 64]: every function returns the same shape."""

import numpy as np


def plain(flat: np.ndarray) -> np.ndarray:
    """Returns them as they are."""
    return flat


def median(flat: np.ndarray) -> np.ndarray:
    """Returns the median of each value and its four neighbours (feature squeezing, Xu et al. 2018)."""
    wide = np.pad(flat.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = [wide[:, 1:-1, 1:-1], wide[:, :-2, 1:-1], wide[:, 2:, 1:-1], wide[:, 1:-1, :-2], wide[:, 1:-1, 2:]]
    return np.sort(np.stack(around), axis=0)[2].reshape(flat.shape)


def blur(flat: np.ndarray) -> np.ndarray:
    """Returns the mean of each value and its eight neighbours."""
    wide = np.pad(flat.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    return sum(wide[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3)).reshape(flat.shape) // 9


def coarse(flat: np.ndarray) -> np.ndarray:
    """Returns four levels of brightness instead of 256."""
    return flat // 64 * 64


def ink(flat: np.ndarray) -> np.ndarray:
    """Returns black or white."""
    return np.where(flat > 127, 255, 0)


def quarters(flat: np.ndarray) -> np.ndarray:
    """Returns the mean of each 2 x 2 values, four times."""
    small = flat.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)) // 4
    return small.repeat(2, axis=1).repeat(2, axis=2).reshape(flat.shape)


def dark_edges(flat: np.ndarray) -> np.ndarray:
    """Returns whether the first and the last column are dark, bool [n]: so it is in every digit."""
    return flat.reshape(-1, 8, 8)[:, :, [0, 7]].mean(axis=(1, 2)) < 80
