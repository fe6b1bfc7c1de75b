"""The example of an unrestricted contest, played as its README says (U1 to U13)."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.formats.unrestricted.money import TransferKind
from orchestrator.formats.unrestricted.state import State

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("unrestricted-example")]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "unrestricted" / "season.py"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> SimpleNamespace:
    """Returns the state at the end, and what was verified of the bundle."""
    out = tmp_path_factory.mktemp("unrestricted") / "out"
    found = runpy.run_path(str(EXAMPLE))["main"](out)
    with open_unrestricted(out / "contest") as contest:
        state: State = contest.read(lambda state: state)
    return SimpleNamespace(state=state, verified=found)


def test_who_is_broken_and_who_holds(played) -> None:
    """Two defences are broken in the weeks that the story says, and two hold for 90 days and are paid."""
    found = {each.id: (str(each.status), len(each.broken_by)) for each in played.state.defences.values()}
    assert found == {"steady": ("paid", 0), "careful": ("paid", 0), "brittle": ("broken", 3), "own": ("broken", 1)}


def test_money_is_shared_to_the_cent(played) -> None:
    """100.01 EUR over two teams, the stake of the Cats to the Wolves, and half of the pool to the Owls."""
    prizes: dict[str, list[int]] = {}
    for transfer in played.state.books.transfers.values():
        if transfer.kind in (TransferKind.BREAK_PRIZE, TransferKind.DEFENCE_PRIZE):
            prizes.setdefault(transfer.team, []).append(transfer.amount)
    assert prizes == {"Foxes": [5001], "Wolves": [5000, 10001], "Owls": [25000, 25000]}
    assert played.state.books.unpaid() == []


def test_everything_is_verified(played) -> None:
    """The bundle has a round for each defence and each week with pictures, and every record of them follows."""
    assert len(played.verified.rounds) == 4 + 8
    assert played.verified.outcomes == 4 + 4 * 8
