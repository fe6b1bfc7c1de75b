"""Invented large rounds, for tests of pages with many submissions."""

from orchestrator.scoring.results_file import Results

from .pages import parts, results_of


def crowd(attacks: int, defences: int, pictures: int = 1000) -> Results:
    """Returns a complete round in which every attack met every defence, with one baseline on each side."""
    template = parts(submissions="square")
    cell = results_of().model_dump()["cells"][1]
    sides = {"attack": attacks, "defence": defences}
    submissions = [
        {**template, "id": f"{side}-{n}", "name": f"{side}-{n}", "team": f"team {n}", "side": side, "baseline": n == 0}
        for side, count in sides.items()
        for n in range(count)
    ]
    cells = []
    for d in range(defences):
        clean = {**cell, "defence": f"defence-{d}", "attack": None, "delta": None, "delta_interval": None}
        cells.append(clean | {"total": pictures, "held": pictures, "fooled": 0, "accuracy": 1.0})
        for a in range(attacks):
            lost = (7 * a + 3 * d) % 100
            told = {"total": pictures, "held": pictures - 10 * lost, "accuracy": 1 - lost / 100, "delta": float(lost)}
            limits = {"delta_interval": [lost - 3.0, lost + 3.0]}
            cells.append({**cell, "defence": f"defence-{d}", "attack": f"attack-{a}", "forfeits": 0, **told, **limits})
    rows = [
        {**results_of().model_dump()["boards"][0]["rows"][0], "submission": f"attack-{n}", "rank": n}
        for n in range(1, attacks)
    ]
    boards = [{**results_of().model_dump()["boards"][0], "rows": rows}]
    return results_of(submissions=submissions, cells=cells, boards=boards, findings=[], replays=[])
