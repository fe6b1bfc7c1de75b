"""Sheets of items to grade, and a browser to open their pages in."""

import base64
import io

import numpy as np
from PIL import Image

from orchestrator.formats.attack_set.grading.sheets import GradingTask, Sheet, SheetItem
from tests import chromium

running_browser, pytest_runtest_teardown = chromium.running_browser, chromium.pytest_runtest_teardown
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
WORDING = {GradingTask.VALID: "What do you see?", GradingTask.QUALITY: "How much of a difference do you see?"}
GRADES = ["very annoying", "annoying", "slightly annoying", "visible", "no difference seen"]


def token(number: int) -> str:
    """Returns the token of the item of that number."""
    return f"{number:016x}"


def picture(number: int, height: int = 32, width: int = 32) -> np.ndarray:
    """Returns a picture of noise, u8 [height, width, 3]: the same for the same number."""
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)


def png(pixels: np.ndarray) -> str:
    """Returns a picture as sheets hold it."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def item(number: int, task: GradingTask, *, practice: bool = False) -> SheetItem:
    """Returns an item with the picture of its number; its original is that of its number plus 1000."""
    original = png(picture(number + 1000)) if task is GradingTask.QUALITY else ""
    return SheetItem(token=token(number), task=task, picture=png(picture(number)), original=original, practice=practice)


def sheet_of(*tasks: GradingTask, practice: int = 0, **changes: object) -> Sheet:
    """Returns a sheet with an item for each task, numbered from 1; the first ones are practice."""
    values = {
        "contest": "Attack sets",
        "plan": "ab" * 32,
        "rater": "rater-7",
        "classes": CLASSES,
        "height": 32,
        "width": 32,
        "wording": WORDING,
        "grades": GRADES,
        "items": [item(n, task, practice=n <= practice) for n, task in enumerate(tasks, start=1)],
    }
    return Sheet.model_validate(values | changes)
