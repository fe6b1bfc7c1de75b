"""The laboratory and its players are beside the tests, where `bench/replay.py` imports them, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
