"""The laboratory and its players lie beside the tests, where `bench/replay.py` finds them as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
