"""In which order the cells of a defence are played: nobody knows it before the round's secret is revealed."""

import dataclasses

from orchestrator.domain.plan import Stage


def order(played) -> list[str | None]:
    """Returns the attacks of the cells in the plan's order."""
    return [job.cells[0].attack for job in played.plan().jobs if job.stage is Stage.CLASSIFY]


def test_the_order_of_cells_is_the_secrets(stage) -> None:
    """Another secret plays the same jobs in another order, the same secret in the same; clean pictures are anywhere."""
    attacks = {f"attack-{number}": lambda seed: seed for number in range(6)}
    played = stage(attacks=attacks)
    orders, first = set(), set()
    for number in range(20):
        played.setting = dataclasses.replace(played.setting, secret=bytes([number]) * 32)
        found = order(played)
        assert found == order(played)
        assert sorted(map(str, found)) == sorted(map(str, [None, *attacks]))
        orders.add(tuple(found))
        first.add(found[0])
    assert len(orders) > 15
    assert len(first) > 3
