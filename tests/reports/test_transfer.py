"""The transfer plots: every delta once, sure ones filled, in the order that a reader looks for."""

from dataclasses import replace

import pytest

from orchestrator import redaction, reports
from orchestrator.formats.tournament.report import row_limit, transfer
from orchestrator.reports.site import build_site
from orchestrator.reports.team import ContestHistory

from .crowds import crowd
from .pages import Tree, results_of


def changed(**deltas):
    """Returns the sample round with other deltas, by `defence__attack`, each with an interval of 3 points around it."""
    cells = results_of().model_dump()["cells"]
    for cell in cells:
        if (delta := deltas.get(f"{cell['defence']}__{cell['attack']}")) is not None:
            cell |= {"delta": delta, "delta_interval": [delta - 3, delta + 3]}
    return results_of(cells=cells)


def test_every_delta_is_drawn_once():
    """The field has one mark for each attacked cell; the dots of a side are the same deltas again."""
    found = transfer.transfer_of(results_of())
    attacked = [cell for cell in results_of().cells if cell.delta is not None]
    assert len(found.grid.marks) == len(attacked) == 9
    for group in found.sides:
        assert sum(len(strip.dots) for strip in group.rows) == 9
    told = {mark.tooltip for mark in found.grid.marks}
    assert told == {dot.tooltip for group in found.sides for strip in group.rows for dot in strip.dots}
    assert len(told) == 9


def test_area_is_the_loss_and_shape_the_direction():
    """A quarter of the loss has half the side; a gain is a circle; what may be chance is not filled."""
    found = transfer.transfer_of(changed(madry__pgd=80.0, madry__square=20.0, moody__pgd=-20.0, moody__square=2.0))
    marks = {mark.tooltip.split(":")[0]: mark for mark in found.grid.marks}
    whole, quarter = marks["madry against pgd"], marks["madry against square"]
    assert whole.size == transfer.MAX_MARK_SIZE
    assert quarter.size == transfer.MAX_MARK_SIZE / 2
    gain = marks["moody against pgd"]
    assert (gain.is_gain, gain.is_significant, gain.size) == (True, True, transfer.MAX_MARK_SIZE / 2)
    assert "gained 20.0 points, 95 % interval \N{MINUS SIGN}23.0 to \N{MINUS SIGN}17.0" in gain.tooltip
    assert not marks["moody against square"].is_significant
    assert whole.is_significant


def test_the_strongest_attack_and_the_least_hurt_defence_come_first():
    """Columns fall in the mean over defences, rows rise in the mean over attacks, and lines of dots follow."""
    found = transfer.transfer_of(results_of())
    for group, falls in zip(found.sides, (True, False), strict=True):
        means = [strip.mean_x for strip in group.rows]
        assert means == sorted(means, reverse=falls)
        assert len(means) == 3
    assert [label.tooltip.split(",")[0] for label in found.grid.columns] == [
        s.submission.id for s in found.sides[0].rows
    ]
    assert [label.middle for label in found.grid.rows] == sorted(label.middle for label in found.grid.rows)


def test_a_strip_names_the_worst_and_counts_the_sure():
    """The most that a defence lost, to whom, with its interval, and how many attacks hurt it beyond chance."""
    found = transfer.transfer_of(changed(madry__pgd=61.0, madry__square=2.0))
    [strip] = [strip for strip in found.sides[1].rows if strip.submission.id == "madry"]
    assert (strip.largest, strip.opponent, strip.limits) == ("61.0", "pgd", "58.0 to 64.0")
    sure = [c for c in changed(madry__pgd=61.0, madry__square=2.0).cells if c.defence == "madry" and c.delta_interval]
    assert strip.significant_losses == sum(c.delta_interval[0] > 0 for c in sure) < strip.total == 3


def test_the_scale_holds_zero_and_every_delta():
    """Ticks are whole steps from below the least delta to above the largest, at most ten of them, zero among them."""
    for deltas in ({"madry__pgd": 99.0}, {"madry__pgd": -100.0}, {"madry__pgd": 0.1}):
        found = transfer.transfer_of(changed(**deltas))
        assert 2 <= len(found.ticks) <= 10
        assert [text for x, _, text in found.ticks if x == found.zero_x] == ["0"]
        dots = [dot.x for group in found.sides for strip in group.rows for dot in strip.dots]
        assert found.ticks[0][0] <= min(dots)
        assert max(dots) <= found.ticks[-1][0]


def test_attacks_of_which_nothing_counts_are_left_out_and_named():
    """An attack that forfeited every picture says nothing about defences (A8), and a reader is told so."""
    cells = results_of().model_dump()["cells"]
    for cell in cells:
        if cell["attack"] == "square":
            cell["forfeits"] = cell["total"]
    found = transfer.transfer_of(results_of(cells=cells))
    assert "Nothing of these attacks counts, so they are left out: square." in found.notes
    assert all("against square" not in mark.tooltip for mark in found.grid.marks)


def test_nothing_played_has_no_plot():
    """Without an attacked cell there is no section, and no link to it."""
    clean = [cell for cell in results_of().model_dump()["cells"] if cell["attack"] is None]
    page = reports.render_round(results_of(cells=clean), [])
    assert transfer.transfer_of(results_of(cells=clean)) is None
    assert "transfer" not in {attrs.get("id") for _, attrs in Tree(page).tags}
    assert "#transfer" not in page


def test_marks_have_tooltips_and_the_plot_a_name():
    """Every mark and dot says in words what it is; each drawing of its own has a name for those who hear the page."""
    tree = Tree(reports.render_round(results_of(), []))
    drawings = [attrs for attrs in tree.named("svg") if attrs.get("role") == "img"]
    assert len(drawings) == 1 + 6
    assert all(attrs["aria-label"] for attrs in drawings)
    assert tree.words.count("against pgd: lost") >= 3
    assert len(tree.named("title")) >= 1 + 9 + 18


@pytest.mark.parametrize("side", [0, 1])
def test_of_many_the_baselines_and_the_best_are_shown(side):
    """Beyond the cap whoever ranks highest stays, in the order of the results, and the page says how many are shown."""
    results = crowd(90, 5)
    shown, left_out = row_limit.limited_members(results, list(transfer.Side)[side], 40)
    assert (len(shown), left_out) == ((40, 50), (5, 0))[side]
    ids = [part.id for part in shown]
    assert ids[0].endswith("-0")
    assert ids == [part.id for part in results.submissions if part.id in ids]
    assert side or ids == [f"attack-{n}" for n in range(40)]
    assert "Shown are 40 of 90 attacks: the baselines and the best." in transfer.transfer_of(results).notes[0]


@pytest.mark.slow
def test_three_hundred_a_side_is_still_a_page():
    """300 x 300: a round's page stays below 4 MB, the first page below 2 MB, and each side's pages below 500 kB."""
    site = build_site([redaction.redact_results(crowd(300, 300))], ContestHistory())
    names = sorted(site.teams)
    assert len(names) == 299, "all but the team of the baselines"
    pages = reports.render_site(replace(site, teams={name: site.teams[name] for name in names[::100]}), [])
    [page] = [text for name, text in pages.items() if name.startswith("rounds/")]
    assert len(page) < 4_000_000
    assert len(pages["index.html"]) < 2_000_000
    assert max(len(text) for name, text in pages.items() if name.startswith("teams/")) < 500_000
    assert page.count("Shown are 40 of 300 attacks and 40 of 300 defences") == 1
    assert page.count("Shown are 60 of 300 attacks and 60 of 300 defences") == 1
    assert "274 more rows on the round" in pages["index.html"]
