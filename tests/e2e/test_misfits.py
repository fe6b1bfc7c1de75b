"""Whatever a submission does costs only itself; the round ends, and the reason is on the report (X1, A7, A8, A14).

tests/contract/test_faults.py shows that its faults are the same on every backend, and test_driver.py plays rounds with
players that crash, hang and talk nonsense in containers and in pods.
"""

import html
from pathlib import Path

import numpy as np
import pytest

from orchestrator.scoring.results_file import CellPart, Results, SubmissionPart

from .conftest import CONTAINERS_IN_SOAK

PICTURES, BATCH = 8, 4
ATTACKS = {
    "attack_crashes": "died",
    "attack_hangs": "deadline",
    "attack_half": "deadline",
    "attack_prints": "protocol",
    "attack_wrong_shape": "reported",
    "attack_dies_loading": "died",
    "attack_floods": "protocol",
}
DEFENCES = {
    "defence_crashes": "died",
    "defence_hangs": "deadline",
    "defence_nonsense": "reported",
    "defence_raw_label": "protocol",
    "defence_prints": "protocol",
    "defence_floods": "protocol",
    "defence_dies_loading": "died",
}
MALFORMED = {
    "attack_raw_shape": ("shape", "wrong shape"),
    "attack_raw_type": ("type", "not 8-bit values"),
    "attack_raw_nan": ("not_finite", "not finite"),
}
"""What is sent over the wire and is no picture: no fault, and why it does not count is told."""


def cell(results: Results, defence: str, attack: str | None = None) -> CellPart:
    """Returns one cell of the matrix."""
    return next(c for c in results.cells if (c.defence, c.attack) == (defence, attack))


def submission(results: Results, name: str) -> SubmissionPart:
    """Returns one submission's part of the results."""
    return next(s for s in results.submissions if s.id == name)


@pytest.fixture(scope="module")
def played(shared_lab) -> tuple[Results, Results, Path]:
    """A round with every misfit, and the same honest players alone."""
    honest = ["attack_noop", "attack_honest", "defence_honest"]
    shared_lab.pictures, shared_lab.settings = PICTURES, {"limits": {"perturb_batch": BATCH}}
    # Whom determinism checks accuse is not looked at here; in containers each begins with a copy of an image.
    few = {"power": 0.5, "cheat": 0.3} if shared_lab.backend == "process" else {"power": 0}
    alone = shared_lab.play(*honest, out="alone", replay=few)
    misfits = (*ATTACKS, *DEFENCES, *MALFORMED, "attack_one_step_too_far", "defence_abstains")
    # So that those who fault at every picture are not asked all of them: their time is used up before.
    crowded = shared_lab.play(
        *honest, *misfits, out="crowded", limits={"perturb_batch": BATCH, "fault_seconds": 0.2}, replay=few
    )
    return alone, crowded, shared_lab.folder / "crowded"


@CONTAINERS_IN_SOAK
def test_misfits_cost_only_themselves(played) -> None:
    """Honest cells are the same with and without misfits, and every misfit is reported with its fault."""
    alone, crowded, out = played
    assert crowded.complete
    for attack in (None, "attack_noop", "attack_honest"):
        assert cell(crowded, "defence_honest", attack) == cell(alone, "defence_honest", attack)
    assert cell(crowded, "defence_honest", "attack_noop").delta == 0
    for name, code in (ATTACKS | DEFENCES).items():
        part = submission(crowded, name)
        assert part.status == "faulted", name
        assert code in [fault.code for fault in part.faults], name
    for honest in ("attack_noop", "attack_honest", "defence_honest"):
        assert submission(crowded, honest).status == "played"
    page = html.unescape((out / "report" / "index.html").read_text())
    for fault in (fault for part in crowded.submissions for fault in part.faults):
        assert fault.message.replace("\\", "")[:40] in page.replace("\\", "")


@CONTAINERS_IN_SOAK
def test_misfits_are_scored_by_the_rules(played) -> None:
    """A missing candidate is held (A8), a picture without an answer fooled (A7), an excess forfeited (A14)."""
    _, crowded, out = played
    # Of two batches the second is lost, and the first counts.
    assert cell(crowded, "defence_honest", "attack_crashes").forfeits == BATCH
    assert cell(crowded, "defence_honest", "attack_hangs").forfeits == BATCH
    # Half of each batch arrived before the deadline (A15).
    assert cell(crowded, "defence_honest", "attack_half").forfeits == PICTURES // 2
    # What the helper sees is the player's fault; what comes over the wire in another shape is no candidate.
    for silent in ("attack_dies_loading", "attack_prints", "attack_wrong_shape", "attack_floods", *MALFORMED):
        lost = cell(crowded, "defence_honest", silent)
        assert (lost.forfeits, lost.held) == (PICTURES, PICTURES)
    over = submission(crowded, "attack_one_step_too_far")
    assert (over.violations, over.forfeits, over.largest) == (PICTURES, PICTURES, 21.0)
    assert over.forfeit_reasons == {"budget": PICTURES}
    assert submission(crowded, "attack_crashes").forfeit_reasons == {"missing": BATCH}
    page = (out / "report" / "index.html").read_text()
    for name, (reason, words) in MALFORMED.items():
        assert submission(crowded, name).status == "played"
        assert submission(crowded, name).forfeit_reasons == {reason: PICTURES}
        assert f'{PICTURES}<span class="line">{PICTURES} {words}</span>' in page
        assert f"does not count: {words}" in page
    for mute in DEFENCES.keys() - {"defence_crashes"}:
        clean = cell(crowded, mute)
        assert (clean.held, clean.accuracy, clean.faults + clean.not_played) == (0, 0, PICTURES)
        told = any(note.startswith("Not every picture was played of") and mute in note for note in crowded.notes)
        assert told == any(part.not_played > 0 for part in crowded.cells if part.defence == mute), mute
    assert cell(crowded, "defence_abstains").abstained == PICTURES


@CONTAINERS_IN_SOAK
def test_a_defence_that_crashes_loses_the_picture_at_which_it_does(shared_lab) -> None:
    """It crashes on the one picture with a speck, twice in the round, and is replaced each time (A7)."""
    shared_lab.pictures = PICTURES
    results = shared_lab.play("attack_noop", "defence_crashes", out="crashes", replay={"power": 0})
    for attack in (None, "attack_noop"):
        met = cell(results, "defence_crashes", attack)
        assert (met.faults, met.held) == (1, PICTURES - 1)
    part = submission(results, "defence_crashes")
    assert part.sandboxes >= 3
    assert part.endings["crashed"] >= 2


@CONTAINERS_IN_SOAK
def test_what_costs_no_picture_is_shown(lab) -> None:
    """Output behind a reply and a child that the memory limit killed change no cell, and stand where people look."""
    stray = {"flood", "protocol"}  # as the bytes arrive: before the next question or behind it
    lab.pictures = 4
    told = dict.fromkeys(("attack_talks_behind", "attack_talks_leaving", "defence_talks_behind"), stray)
    if lab.backend == "docker":  # on process a player's limits are each process's own
        told["defence_child_eats"] = {"out-of-memory"}

    results = lab.play("attack_honest", "defence_honest", *told, replay={"power": 0})

    for name, expected in told.items():
        part = submission(results, name)
        assert {fault.code for fault in part.faults} & expected, name
        assert {fault.code for fault in part.faults} <= expected, name
        assert sum(fault.pictures for fault in part.faults) == 0, name
        assert part.status == "faulted"
        if name.startswith("defence"):
            for attack in (None, "attack_honest", "attack_talks_behind"):
                assert cell(results, name, attack).held == cell(results, "defence_honest", attack).held
        else:
            assert cell(results, "defence_honest", name).held == cell(results, "defence_honest", "attack_honest").held
    assert results.findings == []
    page = html.unescape((lab.folder / "out" / "report" / "index.html").read_text())
    for code in {fault.code for part in results.submissions for fault in part.faults}:
        assert f"<code>{code}</code>" in page


def test_cheats_are_found(process_lab) -> None:
    """A defence that draws at random is found, one that counts too; an honest one is not accused (A9, A10)."""
    results = process_lab.play(
        "attack_noop", "defence_honest", "defence_chance", "defence_counter", replay={"power": 0.99}
    )

    found = {finding.submission: finding for finding in results.findings}

    assert set(found) == {"defence_chance", "defence_counter"}
    assert found["defence_chance"].kind == "chance"
    assert found["defence_chance"].rules == ["A10"]
    assert found["defence_counter"].rules[0] in ("A9", "A10")
    rows = {row.submission: row for board in results.boards for row in board.rows if board.name == "defences"}
    assert rows["defence_chance"].rank is None
    assert "disqualified" in rows["defence_chance"].reason
    assert rows["defence_honest"].rank == 1


@pytest.mark.parametrize("isolation", ["attack", "round", "picture"])
def test_isolation_does_not_change_what_honest_players_do(process_lab, isolation) -> None:
    """Cells are keyed by attack and defence, never by what shared a sandbox."""
    process_lab.pictures = PICTURES
    results = process_lab.play(
        "attack_honest", "attack_noop", "defence_honest", isolation=isolation, replay={"power": 0}
    )

    images = np.load(process_lab.folder / "quarters.npz")["images"].astype(int)
    labels = np.load(process_lab.folder / "quarters.npz")["labels"]
    # Independently: the attack takes 20 from the labelled quarter and gives it to the next; the brightest is answered.
    held = 0
    for image, label in zip(images, labels, strict=True):
        means = [image[r : r + 2, c : c + 2].mean() for r in (0, 2) for c in (0, 2)]
        means[label] -= 20
        means[(label + 1) % 4] += 20
        held += means.index(max(means)) == label
    assert cell(results, "defence_honest", "attack_honest").held == held
    assert cell(results, "defence_honest").held == len(labels)
    assert cell(results, "defence_honest", "attack_noop").delta == 0


def test_stderr_of_a_submission_reaches_no_page(process_lab) -> None:
    """What a player writes to stderr is kept with its sandbox, and is neither on the report nor in the results."""
    results = process_lab.play("attack_noop", "defence_stderr")

    page = (process_lab.folder / "out" / "report" / "index.html").read_text()
    assert "alert(1)" not in page
    assert "alert(1)" not in results.model_dump_json()
