"""Organizers who sign what is not so are found out by anybody with the bundle alone (X2)."""

import json
import shutil

import pytest

from orchestrator.application.publishing import bundles
from orchestrator.bundles.layout import RoundPart
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


def test_a_better_rank_is_found(forge):
    """A number that does not follow from the record is named, with what follows."""
    forged = forge("sealed-2")
    forged.document(f"{FINAL}/results.json", lambda results: results["boards"][0]["rows"][0].update(rank=2))
    place, what = place_of(forged.sign())
    assert place == f"{FINAL}/results.json boards [0] rows [0] rank"
    assert what == "is 2, and 1 follows from the record"


def test_what_came_after_the_close_is_found(forge):
    """Nothing is received between the organizers' close and their reopening; afterwards it is."""

    def closed_before_the_first(entries):
        at = next(i for i, each in enumerate(entries) if each.get("event", {}).get("kind") == "submission_received")
        entries.insert(at, entries[at] | {"event": {"kind": "submissions_closed", "actor": "x", "reason": ""}})

    def reopened(entries):
        at = next(i for i, each in enumerate(entries) if each.get("event", {}).get("kind") == "submissions_closed")
        event = {"kind": "submissions_reopened", "actor": "x", "reason": "y"}
        entries.insert(at + 1, entries[at] | {"event": event})

    forged = forge("sealed-2")
    forged.contest(closed_before_the_first)
    place, what = place_of(forged.sign())
    assert place.startswith("contest.jsonl entry")
    assert what == "receives something after the organizers closed submissions"
    forged.contest(reopened)
    assert bundles.verify_bundle_or_receipt(forged.sign(), None, None)


@pytest.mark.parametrize(("last_byte", "is_late"), [("2026-01-01T00:00:00.000+00:00", False), ("", True)])
def test_a_file_that_was_whole_before_the_close_may_be_noted_after_it(forge, last_byte, is_late):
    """One that was whole at that moment may not."""

    def noted_after_the_close(entries):
        last, team = entries[-1], of_kind(entries, "submission_received")[0]["team"]
        said = {"arrival": "0" * 16, "team": team, "task": "quarters", "side": "attack"}
        said |= {"kind": "submission_arrived", "last_byte": last_byte or last["time"]}
        entries.append(last | {"event": {"kind": "submissions_closed", "actor": "x", "reason": ""}})
        entries.append({"seq": 0, "hash": "", "leaf": last["hash"], "public": said})

    forged = forge("sealed-2")
    forged.contest(noted_after_the_close)
    if is_late:
        assert place_of(forged.sign())[1] == "receives something after the organizers closed submissions"
    else:
        assert bundles.verify_bundle_or_receipt(forged.sign(), None, None)


@pytest.mark.parametrize(("name", "every"), [("sealed-2", 1), ("full", 4)])
def test_every_number_of_a_board_is_recomputed(forge, name, every):
    """No field of a board, a cell or a finding can be changed alone, whatever it is, now or in later versions."""
    forged = forge(name)
    path = forged.folder / FINAL / "results.json"
    original = path.read_bytes()
    results = json.loads(original)
    places = [
        *(("boards", board, "rows", row) for board, row in ((0, 0), (1, 1))),
        ("boards", 0),
        ("cells", 2),
        ("findings", 0),
        ("replays", 0),
        ("task",),
        ("rules",),
        ("jobs", 0),
        (),
    ]
    tried = 0
    for steps in places[::every]:
        inside = results
        for step in steps:
            inside = inside[step]
        for field in inside:
            value = json.loads(original)
            change(value, steps, field)
            forged.document(f"{FINAL}/results.json", lambda old, new=value: (old.clear(), old.update(new)))
            place, what = place_of(forged.sign())
            assert place.startswith(f"{FINAL}/results.json"), (steps, field, place, what)
            tried += 1
    assert tried > (80 if every == 1 else 20), tried


def change(value, steps, field):
    """Changes one field in place."""
    for step in steps:
        value = value[step]
    old = value[field]
    match old:
        case bool():
            value[field] = not old
        case int() | float():
            value[field] = old + 1
        case str():
            value[field] = old + "x"
        case list():
            value[field] = [*old, *old[:1]] if old else [1]
        case dict():
            old.pop(next(iter(old)))
        case None:
            value[field] = 1


@pytest.mark.parametrize("field", ["name", "team", "image", "status", "forfeits", "violations", "faults", "seconds"])
def test_what_is_said_of_a_submission_is_recomputed(forge, field):
    """What a sealed bundle says of a submission follows from it, but for what was measured."""
    forged = forge("sealed-2")
    forged.document(f"{FINAL}/results.json", lambda results: change(results, ("submissions", 2), field))
    assert place_of(forged.sign())[0].startswith(f"{FINAL}/results.json submissions")


def sealed_letter(forged):
    """One letter of one cell."""

    def swap(cells):
        cells[0]["calls"] = cells[0]["calls"].replace("f", "h", 1)

    forged.lines(f"{FINAL}/cells.jsonl", swap)
    return f"{FINAL}/results.json"


def sealed_unknown_letter(forged):
    """A letter that there is not."""
    forged.lines(f"{FINAL}/cells.jsonl", lambda cells: cells[1].update(calls=cells[1]["calls"][:-1] + "u"))
    return f"{FINAL}/cells.jsonl line 2 calls"


def sealed_picture_left_out(forged):
    """A picture, in all cells and among the commitments."""

    def cut(cells):
        for cell in cells:
            cell["calls"] = cell["calls"][1:]

    forged.lines(f"{FINAL}/cells.jsonl", cut)
    forged.lines(f"{FINAL}/pictures.jsonl", lambda pictures: pictures.pop())
    return f"{FINAL}/pictures.jsonl"


def sealed_cell_left_out(forged):
    """A cell that was played."""
    forged.lines(f"{FINAL}/cells.jsonl", lambda cells: cells.pop(1))
    return f"{FINAL}/results.json"


def sealed_cell_twice(forged):
    """A cell that stands twice."""
    forged.lines(f"{FINAL}/cells.jsonl", lambda cells: cells.insert(1, cells[1]))
    return f"{FINAL}/cells.jsonl line 3"


def sealed_stranger(forged):
    """A cell of somebody who was not admitted."""
    forged.lines(f"{FINAL}/cells.jsonl", lambda cells: cells[-1].update(defence="zebra"))
    return f"{FINAL}/cells.jsonl line"


def sealed_violations(forged):
    """Fewer violations than forfeits for leaving the budget."""

    def fewer(round_):
        next(part for part in round_["attacks"] if part["attack"] == "attack_far")["violations"] -= 1

    forged.document(f"{FINAL}/round.json", fewer)
    return f"{FINAL}/round.json attacks attack_far"


def sealed_reason(forged):
    """Candidates of a wrong shape, said to be missing."""

    def other(round_):
        next(part for part in round_["attacks"] if part["attack"] == "attack_far")["malformed"]["shape"] -= 1

    forged.document(f"{FINAL}/round.json", other)
    return f"{FINAL}/results.json submissions"


def sealed_too_many_reasons(forged):
    """More reasons than forfeits."""

    def more(round_):
        next(part for part in round_["attacks"] if part["attack"] == "attack_far")["malformed"]["type"] += 1

    forged.document(f"{FINAL}/round.json", more)
    return f"{FINAL}/round.json attacks attack_far"


def sealed_finding_left_out(forged):
    """A finding."""
    forged.document(f"{FINAL}/round.json", lambda round_: round_["findings"].clear())
    return f"{FINAL}/results.json"


def sealed_promotion(forged):
    """Who was promoted, with everything counted again as if it were so."""

    def others(entries):
        of_kind(entries, "tournament.finalists_promoted")[-1].update(attacks=["attack_noop"])

    forged.contest(others)
    forged.recount()
    return "contest.jsonl entry"


def sealed_time(forged):
    """When a submission was received, which breaks ties (A16)."""

    def earlier(entries):
        shown = [entry for entry in entries if "event" in entry]
        place = next(at for at, entry in enumerate(shown) if entry["event"].get("id") == "attack_far")
        shown[place]["time"] = shown[place - 1]["time"]

    forged.contest(earlier)
    return f"{INITIAL}/ledger.jsonl attack_far"


def sealed_eligibility(forged):
    """A disqualification that nobody noted in the results."""
    act = {"kind": "submission_disqualified", "actor": "x", "id": "attack_tells", "reason": "y"}
    entry = {"seq": 0, "hash": "", "time": "9999-01-01T00:00:00.000+00:00", "salt": "0" * 32, "event": act}
    forged.contest(lambda entries: entries.append(entry))
    return f"{INITIAL}/results.json"


def sealed_round_left_out(forged):
    """A round that was played."""
    rounds = json.loads((forged.folder / "manifest.json").read_bytes())["rounds"]
    shutil.rmtree((forged.folder / FINAL).parent)
    forged.manifest(rounds=[RoundPart(**rounds[0])])
    return "manifest.json rounds"


def sealed_contest_cut(forged):
    """The end of the contest's ledger, without the manifest's head."""
    forged.ledger("contest.jsonl", lambda entries: entries.pop())
    return "manifest.json head"


def sealed_shown(forged):
    """An entry shown that sealed bundles withhold."""
    event = {"kind": "attempt_failed", "job": "j", "attempt": 1, "code": "c", "message": "m"}
    entry = {"seq": 0, "hash": "", "time": "9999-01-01T00:00:00.000+00:00", "salt": "0" * 32, "event": event}
    forged.round(FINAL, lambda entries: entries.insert(1, entry))
    return f"{FINAL}/ledger.jsonl entry 2"


def sealed_unfinished(forged):
    """A round that ends before its end."""
    forged.round(FINAL, lambda entries: entries.pop())
    return f"{FINAL}/ledger.jsonl"


LIES = [lie for name, lie in list(globals().items()) if name.startswith("sealed_")]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_found(forge, lie):
    """What the organizers themselves change, sign and chain again contradicts something else, which is named."""
    forged = forge("sealed-2")
    expected = lie(forged)
    place, what = place_of(forged.sign())
    assert place.startswith(expected), (place, what)
    assert what


def flattered(forged):
    """Has one defence hold everything in a sealed bundle, and counts the results again."""

    def flatter(cells):
        for cell in cells:
            if cell["defence"] == "defence_constant":
                cell["calls"] = "h" * len(cell["calls"])

    forged.lines(f"{FINAL}/cells.jsonl", flatter)
    forged.recount()
    return f"sealed {FINAL}/cells.jsonl line"


def committed(forged):
    """Commits to something else."""
    forged.lines(f"{INITIAL}/pictures.jsonl", lambda lines: lines[7].update(commitment="sha256:" + "5" * 64))
    return f"sealed {INITIAL}/pictures.jsonl line 8 commitment"


def measured(forged):
    """States a time that was not measured."""
    forged.document(f"{FINAL}/results.json", lambda results: results["submissions"][0].update(cpu_seconds=1e6))
    return f"sealed {FINAL}/results.json submissions"


def shortened(forged):
    """States less work than there was."""
    forged.document(f"{FINAL}/round.json", lambda round_: round_["work"][0].update(seconds=99.0))
    forged.recount()
    return f"sealed {FINAL}/round.json work [0] seconds"


def excused(forged):
    """States pictures of a wrong shape as pictures that were not delivered."""

    def excuse(round_):
        next(part for part in round_["attacks"] if part["attack"] == "attack_far")["malformed"]["shape"] = 0

    forged.document(f"{FINAL}/round.json", excuse)
    forged.recount()
    return f"sealed {FINAL}/round.json attacks"


def eligible(forged):
    """Says of a team that nobody in it is an organizer (A5)."""

    def other(entries):
        next(e for e in entries if e.get("public", {}).get("team") == "House")["public"]["organizers"] = 0

    forged.contest(other)
    forged.recount()
    return "sealed contest.jsonl entry 3"


def unpublished(forged):
    """Never left the house as a bundle."""
    forged.manifest(software="9.9.9")
    return "sealed manifest.json"


@pytest.mark.parametrize("lie", [flattered, committed, measured, shortened, excused, eligible, unpublished])
def test_a_sealed_lie_is_opened(cup, forge, lie):
    """A sealed bundle that holds by itself and did not tell the truth is found out by the full one (X2)."""
    forged = forge("sealed-2")
    expected = lie(forged)
    folder = forged.sign()
    assert bundles.verify_bundle_or_receipt(folder, cup.key.fingerprint).kind == "sealed"
    place, what = place_of(cup.bundles["full"], folder)
    assert place.startswith(expected), (place, what)
