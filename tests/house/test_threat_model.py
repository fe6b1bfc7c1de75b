"""The threat model names what proves it, and nothing that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = sorted({path.parent.name.partition("-")[0] for path in (ROOT / "tests" / "hostile").glob("*/expect.yaml")})


def named() -> set[str]:
    """Returns every program that docs/threat-model.md names."""
    text = (ROOT / "docs" / "threat-model.md").read_text()
    return set(re.findall(rf"`((?:{'|'.join(FAMILIES)})-[a-z0-9-]+)`", text))


def test_every_program_is_in_the_threat_model() -> None:
    """Each hostile program stands in the table of threats, and each that stands there exists."""
    there = {path.parent.name for path in (ROOT / "tests" / "hostile").glob("*/expect.yaml")}
    assert named() == there
