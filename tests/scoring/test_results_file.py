"""`results.json` as it is written."""

import pytest

from orchestrator.scoring.results_file import results_json
from tests.reports.crowds import crowd

CROWD = crowd(40, 40)
TITLE = 'x\n  "cells": []'


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cells": [], "jobs": []},
        {"cells": CROWD.cells[:1]},
        {"cells": CROWD.cells[:1000], "jobs": CROWD.jobs[:1]},
        {"title": TITLE, "rules": {"cells": [], "jobs": TITLE}},
    ],
)
def test_the_pieces_of_a_results_file_are_its_text(changes) -> None:
    """Written piece by piece the file is what pydantic writes at once, whatever its lists and its texts hold."""
    results = CROWD.model_copy(update=changes)
    pieces = list(results_json(results))
    assert b"".join(pieces).decode() == results.model_dump_json(indent=2) + "\n"


def test_no_piece_holds_all_cells() -> None:
    """A piece holds a thousand cells at most: the whole is never in memory."""
    assert max(piece.count(b'"defence":') for piece in results_json(CROWD)) == 1000 < len(CROWD.cells)
