"""Plays a whole season with the commands of `sparring`, and shows each of them.

    python examples/tournament/season.py OUT

OUT/cup becomes the contest's folder, OUT/submissions what the teams submit, OUT/sealed and OUT/full what is published.
README.md tells what happens and why. The commands run in this process, which saves their start; typed into a shell they
do the same.
"""

import argparse
import io
import json
import shlex
import shutil
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from typer.main import get_command

from orchestrator.cli.app import app

HERE = Path(__file__).resolve().parent
ATTACK = ("attack.py", "targets.py", "views.py", "model.npz")
DEFENCE = ("defence.py", "judges.py", "views.py", "model.npz")
COMMAND = get_command(app)


@dataclass(frozen=True)
class Entry:
    """What a team submits for a task. `command` is what follows `python attack.py` or `python defence.py`."""

    team: str
    task: str
    name: str
    side: str
    command: str
    refused: bool = False
    released: bool = True
    """Whether its manifest names a licence and a source address (A6)."""


TEAMS = {
    "Beyond Measure": ["--member", "bo@example.org:Bo"],
    "Middle Kingdom": ["--member", "cem@example.org:Cem"],
    "Thinking Aloud": ["--member", "dina@example.org:Dina"],
    "Right Turn": ["--member", "eva@example.org:Eva"],
    "Looking Glass": ["--member", "finn@example.org:Finn", "--member", "gül@example.org:Gül"],
    "Going Down": ["--member", "hugo@example.org:Hugo"],
    "Pinstripe": ["--member", "ida@example.org:Ida"],
    "Heads or Tails": ["--member", "jan@example.org:Jan"],
    "Cold Start": ["--member", "kim@example.org:Kim"],
    "Leapfrog": ["--member", "lea@example.org:Lea"],
    "Corner Shop": ["--member", "ada@example.org:Ada"],
    "Three Tries": ["--member", "max@example.org:Max"],
    "House Team": ["--member", "noor@example.org:Noor", "--organizer", "otto@example.org:Otto"],
    "Closed Shop": ["--member", "pia@example.org:Pia"],
    "Show of Hands": ["--member", "quin@example.org:Quin"],
    "Four Quarters": ["--member", "rosa@example.org:Rosa"],
    "Soft Focus": ["--member", "sven@example.org:Sven"],
    "Five Quarters": ["--member", "tove@example.org:Tove"],
    "Average Joe": ["--member", "joe@example.org:Joe"],
    "Coin Toss": ["--member", "ugo@example.org:Ugo"],
    "Fainting Goats": ["--member", "vera@example.org:Vera"],
    "Broken Record": ["--member", "wim@example.org:Wim"],
    "Seven in Ten": ["--member", "xenia@example.org:Xenia"],
    "Bystanders": ["--member", "yuri@example.org:Yuri", "--member", "bo@example.org:Bo"],
}

SUBMISSIONS = [
    # Three tasks are enough for Ada, who is refused the fourth (A1).
    Entry("Corner Shop", "faint", "corners", "attack", "corners"),
    Entry("Corner Shop", "euclid", "corners", "attack", "corners"),
    Entry("Corner Shop", "familiar", "corners", "attack", "corners"),
    Entry("Corner Shop", "digits", "corners", "attack", "corners", refused=True),
    # The attacks on the digits. Going Down ties with Looking Glass at the fifth place, and came later (A16).
    Entry("Beyond Measure", "digits", "beyond", "attack", "beyond"),
    Entry("Middle Kingdom", "digits", "mean", "attack", "mean"),
    Entry("Thinking Aloud", "digits", "aloud", "attack", "aloud"),
    Entry("Right Turn", "digits", "right", "attack", "right"),
    Entry("Looking Glass", "digits", "mirror", "attack", "mirror"),
    Entry("Going Down", "digits", "down", "attack", "down"),
    Entry("Pinstripe", "digits", "stripes", "attack", "stripes"),
    Entry("Heads or Tails", "digits", "tails", "attack", "corners"),
    Entry("Leapfrog", "digits", "leap", "attack", "beyond 2"),
    Entry("Cold Start", "digits", "cold", "attack", "crash"),
    # The defences. One team tries four times (A4); Bo attacks already, in another team (A1).
    Entry("Three Tries", "digits", "levels_means", "defence", "coarse means"),
    Entry("Three Tries", "digits", "levels_five", "defence", "coarse five"),
    Entry("Three Tries", "digits", "levels", "defence", "coarse nearest"),
    Entry("Three Tries", "digits", "levels_eleven", "defence", "coarse eleven", refused=True),
    Entry("Bystanders", "digits", "outline", "defence", "ink five", refused=True),
    Entry("House Team", "digits", "house", "defence", "ink nearest"),
    Entry("Closed Shop", "digits", "closed", "defence", "median nearest", released=False),
    Entry("Show of Hands", "digits", "hands", "defence", "plain five"),
    Entry("Soft Focus", "digits", "soft", "defence", "blur eleven"),
    Entry("Four Quarters", "digits", "quarters", "defence", "quarters nearest"),
    Entry("Five Quarters", "digits", "five_quarters", "defence", "quarters five"),
    Entry("Average Joe", "digits", "average", "defence", "plain means"),
    Entry("Coin Toss", "digits", "coin", "defence", "coarse coin"),
    Entry("Fainting Goats", "digits", "goats", "defence", "plain crash"),
    Entry("Broken Record", "digits", "record", "defence", "plain constant"),
    Entry("Seven in Ten", "digits", "seven", "defence", "coarse careless"),
    # The other tasks are smaller.
    Entry("Beyond Measure", "faint", "beyond", "attack", "beyond"),
    Entry("Show of Hands", "faint", "hands", "defence", "plain five"),
    Entry("Average Joe", "faint", "average", "defence", "plain means"),
    Entry("Middle Kingdom", "euclid", "mean", "attack", "mean"),
    Entry("Show of Hands", "euclid", "hands", "defence", "plain five"),
    Entry("Soft Focus", "euclid", "soft", "defence", "blur eleven"),
    Entry("Looking Glass", "familiar", "mirror", "attack", "mirror"),
    Entry("Four Quarters", "familiar", "quarters", "defence", "quarters nearest"),
    Entry("Three Tries", "familiar", "levels", "defence", "coarse nearest"),
]

BASELINES = [
    Entry("organizers", "", "fgsm", "attack", "fgsm"),
    Entry("organizers", "", "bim", "attack", "bim"),
    Entry("organizers", "", "pgd", "attack", "pgd"),
    Entry("organizers", "", "undefended", "defence", "plain linear"),
    Entry("organizers", "", "fgsm_trained", "defence", "plain hardened"),
]


def main() -> None:
    """Plays the season into the folder that is named."""
    parser = argparse.ArgumentParser(description="Plays a whole season on handwritten digits.")
    parser.add_argument("out", type=Path, help="a new folder")
    play(parser.parse_args().out)


def play(out: Path) -> None:
    """Plays the season and publishes it."""
    cup = out / "cup"
    cup.mkdir(parents=True)
    shutil.copy(HERE / "contest.yaml", cup)
    for baseline in BASELINES:
        lay_out(baseline, cup / "baselines" / baseline.name)
    key = json.loads(sparring("contest", "open", cup, "--json"))["key"]
    for team, people in TEAMS.items():
        sparring("team", "add", cup, team, *people)
    for entry in SUBMISSIONS:
        place = f"{entry.team} {entry.task} {entry.name}".lower().replace(" ", "_")
        folder = lay_out(entry, out / "submissions" / place)
        whose = ("--team", entry.team, "--task", entry.task)
        # These submissions are ours, so the process backend may run them.
        sparring("submit", cup, folder, *whose, "--allow-unisolated", status=int(entry.refused))
    sparring("round", "run", cup, "initial", "--allow-unisolated")
    sparring("round", "promote", cup)
    sparring("round", "run", cup, "final", "--allow-unisolated")
    sparring("board", cup, "--task", "digits")
    publish(cup, out, key)


def publish(cup: Path, out: Path, key: str) -> None:
    """Publishes what shows no label, checks it as a stranger would, and then publishes everything."""
    sparring("publish", cup, "--out", out / "sealed")
    sparring("verify", out / "sealed", "--key", key)
    sparring("publish", cup, "--out", out / "full", "--full")
    sparring("verify", out / "full", "--key", key, "--sealed", out / "sealed")
    sparring("verify", cup / "receipts" / "mirror.json", "--key", key)


def lay_out(entry: Entry, folder: Path) -> Path:
    """Writes a submission's folder: its manifest, the player, and what the player knows."""
    folder.mkdir(parents=True)
    for name in ATTACK if entry.side == "attack" else DEFENCE:
        shutil.copy(HERE / "players" / name, folder)
    manifest = {
        "sparring": 1,
        "name": entry.name,
        "side": entry.side,
        "command": ["python", f"{entry.side}.py", *entry.command.split()],
    }
    if entry.released:
        manifest |= {"licence": "Apache-2.0", "source": f"https://example.org/{entry.name}"}
    YAML().dump(manifest, folder / "submission.yaml")
    return folder


def sparring(*words: object, status: int = 0) -> str:
    """Shows a command, runs it, and returns what it printed. Raises SystemExit when it ends otherwise."""
    arguments = [str(word) for word in words]
    print(f"\n$ sparring {shlex.join(arguments)}", flush=True)
    with redirect_stdout(io.StringIO()) as printed:
        ended = COMMAND.main(arguments, prog_name="sparring", standalone_mode=False) or 0
    print(printed.getvalue(), end="", flush=True)
    if ended != status:
        raise SystemExit(f"that ended with {ended} instead of {status}")
    return printed.getvalue()


if __name__ == "__main__":
    main()
