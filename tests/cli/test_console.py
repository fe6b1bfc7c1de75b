"""What every command's output shares."""

import os
import subprocess
import sys

import pytest

ASK = "from orchestrator.cli.console import out; print(out.width)"


@pytest.mark.parametrize(("columns", "width"), [(None, 180), ("40", 40)])
def test_what_is_no_terminal_is_a_page_wide(columns, width) -> None:
    """A table in a log breaks no names, unless somebody says how wide the log is."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    said = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert int(said.stdout) == width
