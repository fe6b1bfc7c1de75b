"""The self-test of cheats is described as it is."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "cheats.md").read_text("utf-8")


def test_few_are_prevented(programs) -> None:
    """At most three cheats are out of reach of a replay; of the others there are at least fifteen."""
    assert sum(each.expects.caught == "prevented" for each in programs) <= 3
    assert sum(each.expects.caught == "replay" for each in programs) >= 15


def test_every_program_is_described(programs) -> None:
    """docs/cheats.md has a row for each hostile program, with what it does and its kind, and no other."""
    rows = [line[2:-2].split(" | ") for line in TEXT.splitlines() if line.startswith("| `")]
    described = {row[0].strip("`"): (row[1], re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert len(described) == len(rows)
    assert described == {
        each.name: (each.expects.does, [kind.value for kind in each.expects.kind]) for each in programs
    }


def test_every_cheat_is_where_it_belongs(programs) -> None:
    """Programs stand under the heading that says whether they are caught, prevented or honest."""
    headings = {"replay": "## Caught", "prevented": "## Prevented", "honest": "## Honest"}
    for each in programs:
        _, _, below = TEXT.partition(f"\n{headings[each.expects.caught]}\n")
        assert f"\n| `{each.name}` |" in below.partition("\n## ")[0], each.name
