"""The self-test of cheats is described as it is."""

import re
from pathlib import Path

from orchestrator.domain.findings import FindingKind

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cheats.md").read_text("utf-8")


def test_few_are_prevented(programs) -> None:
    """At most three cheats are out of reach of a replay; of the others there are at least fifteen."""
    assert sum(each.expects.caught == "prevented" for each in programs) <= 3
    assert sum(each.expects.caught == "replay" for each in programs) >= 15


def test_every_kind_plays_without_soak(programs) -> None:
    """Each kind is caught in a played round of test-all, what uses its container as well; what is prevented plays."""
    played = [each for each in programs if not each.expects.shown_by]
    kinds = {kind for each in programs for kind in each.expects.kind}
    assert {kind for each in played for kind in each.expects.kind} == kinds - {FindingKind.INCONSISTENT}
    assert all(each in played for each in programs if each.expects.caught == "prevented")


def test_who_does_not_play_without_soak_is_shown_by_a_test(programs) -> None:
    """The test that a program names for it is there."""
    for each in programs:
        file, _, name = each.expects.shown_by.partition("::")
        assert not file or f"\ndef {name}(" in (ROOT / file).read_text("utf-8"), each.name


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
