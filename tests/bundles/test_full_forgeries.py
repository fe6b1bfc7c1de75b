"""Organizers who sign a full bundle of what is not so are found out by anybody with it alone (X2)."""

import numpy as np
import pytest

from orchestrator.application.publishing import bundles
from orchestrator.errors import NotGenuine

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
FINAL = "rounds/final/quarters"
INITIAL = "rounds/initial/quarters"


def place_of(folder, against=None):
    """Returns what does not hold in a bundle, and where."""
    with pytest.raises(NotGenuine) as found:
        bundles.verify_bundle_or_receipt(folder, None, against)
    [problem] = found.value.problems
    return problem.place, problem.what


def of_kind(entries, kind):
    """Returns the events of a kind among the entries of a ledger that are shown."""
    return [entry["event"] for entry in entries if entry.get("event", {}).get("kind") == kind]


def full_label(forged):
    """A label in the list of pictures."""
    forged.lines(f"{FINAL}/pictures.jsonl", lambda lines: lines[3].update(label=(lines[3]["label"] + 1) % 4))
    return f"{FINAL}/pictures.jsonl line 4 label"


def full_answer(forged):
    """An answer in the list of cells."""

    def other(cells):
        cells[2]["answers"][5] = (cells[2]["answers"][5] + 1) % 4

    forged.lines(f"{FINAL}/cells.jsonl", other)
    return f"{FINAL}/cells.jsonl line 3 answers [5]"


def full_distance(forged):
    """A distance in the list of attacks."""

    def nearer(attacks):
        attacks[0]["distances"][0] = 1.0

    forged.lines(f"{FINAL}/attacks.jsonl", nearer)
    return f"{FINAL}/attacks.jsonl line 1 distances [0]"


def full_secret(forged):
    """The secret."""
    (forged.folder / FINAL / "secret").write_text("ab" * 32 + "\n")
    return f"{FINAL}/secret"


def full_array(forged):
    """An array that is not what its digest says."""
    path = forged.folder / "blobs.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return "blobs.bin byte"


def full_measured(forged):
    """A measured time, which a full bundle's ledger tells."""
    forged.document(f"{FINAL}/results.json", lambda results: results["submissions"][0].update(seconds=0.0))
    return f"{FINAL}/results.json submissions [0] seconds"


def full_promotion(forged):
    """An earlier promotion, on which nothing depends any more."""

    def others(entries):
        of_kind(entries, "tournament.finalists_promoted")[0].update(attacks=["attack_noop"])

    forged.contest(others)
    return "contest.jsonl entry"


def full_finding_left_out(forged):
    """A finding that follows from the replays."""

    def drop(entries):
        entries.remove(next(e for e in entries[::-1] if e["event"]["kind"] == "finding_made"))

    forged.round(FINAL, drop)
    return f"{FINAL}/ledger.jsonl entry"


def full_replay(forged):
    """What a replay covered."""
    forged.round(FINAL, lambda entries: of_kind(entries, "replay_judged")[-1].update(drawn=1))
    return f"{FINAL}/ledger.jsonl entry"


def full_copy(forged):
    """A step that is said to come from the initial round."""

    def slower(entries):
        start = next(number for number, e in enumerate(entries) if e["event"]["kind"] == "jobs_reused")
        entries[start + 1]["event"]["seconds"] += 1

    forged.round(FINAL, slower)
    return f"{FINAL}/ledger.jsonl entry"


def full_closing(forged):
    """The digest from which the replays were drawn."""
    forged.round(FINAL, lambda entries: of_kind(entries, "play_closed")[-1].update(answers="sha256:" + "0" * 64))
    return f"{FINAL}/ledger.jsonl entry"


def full_answers_left_out(forged):
    """Answers that are no longer there: a picture that nobody asked counts as held."""

    def fewer(entries):
        mine = [e for e in of_kind(entries, "step_finished") if e["stage"] == "classify"]
        step = next(e for e in mine if e["submission"] == "defence_constant")
        forged.array(entries, step["blobs"]["rows"], lambda rows: rows[1:])

    forged.round(INITIAL, fewer)
    return f"{INITIAL} cell defence_constant against"


def full_forfeits(forged):
    """Forfeits of an attack that was beyond the budget, taken away."""

    def none(entries):
        mine = [e for e in of_kind(entries, "step_finished") if e["submission"] == "attack_far"]
        step = next(e for e in mine if e["stage"] == "perturb")
        forged.array(entries, step["blobs"]["forfeits"], np.zeros_like)

    forged.round(INITIAL, none)
    return f"{INITIAL} attack attack_far"


def pictures_distance(forged):
    """Distances that the pictures do not have."""

    def nearer(entries):
        mine = [e for e in of_kind(entries, "step_finished") if e["submission"] == "attack_tells"]
        forged.array(entries, mine[0]["blobs"]["distances"], lambda array: array - 1)

    forged.round(INITIAL, nearer)
    return f"{INITIAL} attack attack_tells picture"


def pictures_label(forged):
    """Labels that do not belong to the pictures of the task's digest."""

    def other(entries):
        task = of_kind(entries, "round_opened")[0]["task"]
        forged.array(entries, task["labels"], lambda labels: (labels + 1) % 4)

    forged.round(INITIAL, other)
    return f"{INITIAL} pictures"


def pictures_beyond(forged):
    """A candidate beyond the budget that counts."""

    def farther(entries):
        mine = [e for e in of_kind(entries, "step_finished") if e["submission"] == "attack_tells"]
        forged.array(entries, mine[0]["blobs"]["candidates"], lambda array: 255 - array)

    forged.round(INITIAL, farther)
    return f"{INITIAL} attack attack_tells picture"


LIES = [lie for name, lie in list(globals().items()) if name.partition("_")[0] in {"full", "pictures"}]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_found(forge, lie):
    """What the organizers themselves change, sign and chain again contradicts something else, which is named."""
    kind = lie.__name__.partition("_")[0]
    forged = forge(kind)
    expected = lie(forged)
    place, what = place_of(forged.sign())
    assert place.startswith(expected), (place, what)
    assert what
