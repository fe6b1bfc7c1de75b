"""A tiny season that the tests play, and its bundles."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.application.contests import promotion, season_rounds, seasons, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import play_rounds
from orchestrator.bundles import packed_blobs, sealed_lists, sealed_round_check, writer
from orchestrator.bundles.encoding import encode, encode_lines
from orchestrator.bundles.layout import BLOB_INDEX, BLOBS, MANIFEST, BundleManifest, RoundPart
from orchestrator.bundles.reader import Bundle
from orchestrator.bundles.round_checks import read_contest
from orchestrator.domain import contest_events
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import Rejected
from orchestrator.ledger.stores.base import GENESIS, entry_hash, leaf_hash, put_array
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.signatures import SigningKey

PLAYER = Path(__file__).parent / "players" / "player.py"
PROTOCOL = Path(__file__).parents[2] / "images" / "templates" / "bare" / "protocol.py"
PICTURES = 24
CONTEST = {
    "sparring": 1,
    "contest": "lab",
    "title": "Laboratory",
    "format": "tournament",
    "tasks": [
        {
            "name": "quarters",
            "dataset": {"kind": "npz", "path": "quarters.npz"},
            "budget": {"norm": "linf", "epsilon": 20},
        }
    ],
    "limits": {
        "memory": "512MiB",
        "ready_seconds": 20,
        "perturb_seconds": 10,
        "perturb_batch": 8,
        "classify_seconds": 60,
        "restarts": 30,
    },
    "replay": {"power": 0.4, "cheat": 0.3},
    "rules": {
        "clean_floor": None,
        "initial": {"classifier": "defence_honest", "weights": {"attack_noop": 1}},
        "finalists": 2,
    },
}
HOW = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
TEAMS = {
    "Corner Shop": [("ada@example.org", "Ada", False)],
    "House": [("bob@institute.example", "bob@institute.example", True), ("eve@example.org", "Eve", False)],
}
ENTRIES = (
    ("Corner Shop", "attack_tells"),
    ("Corner Shop", "attack_far"),
    ("House", "defence_constant"),
    ("House", "defence_chance"),
    ("House", "defence_dies"),
)


@dataclass
class Cup:
    """A season in its folder, with its bundles by name."""

    path: Path
    bundles: dict[str, Path] = field(default_factory=dict)

    @property
    def key(self) -> SigningKey:
        """The organizers' key."""
        return SigningKey.read_file(self.path / "key")

    def submit(self, team: str, player: str) -> None:
        """Submits a player."""
        with seasons.administer(self.path, "tester") as desk:
            backend = play_rounds.ready_backend(desk.contest, desk.folder.path.resolve(), HOW)
            submission_admission.submit(
                desk, SubmissionRequest(team=team, task="quarters", folder=self.player(player)), backend
            )

    def player(self, name: str) -> Path:
        """Makes a player's folder."""
        side, _, behaviour = name.partition("_")
        folder = self.path.parent / "players" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in (PLAYER, PROTOCOL):
            shutil.copy(file, folder)
        command = ["python", "player.py", side, behaviour]
        said = {"sparring": 1, "name": name, "side": side, "command": command}
        released = {"licence": "MIT", "source": "https://example.net/source"}
        (folder / "submission.yaml").write_text(json.dumps(said | released))
        return folder

    def play(self, phase: str) -> None:
        """Plays a round."""
        with seasons.administer(self.path, "tester") as desk:
            season_rounds.play_round(desk, phase, HOW, lambda _: None)

    def promote(self) -> None:
        """Promotes submissions by the boards."""
        with seasons.administer(self.path, "tester") as desk:
            promotion.promote(desk)

    def publish(self, name: str, kind: str, **how: bool) -> Path:
        """Publishes a bundle beside the contest."""
        out = self.path.parent / name
        with seasons.administer(self.path, "tester") as desk:
            self.bundles[name] = bundles.publish_bundle(desk, out, kind, **how).path
        return out


def quarters() -> dict[str, Any]:
    """Returns pictures u8 [count, 4, 4] whose label is their brightest quarter, with labels in random order."""
    chance = np.random.default_rng(11)
    labels = chance.integers(0, 4, PICTURES)
    images = chance.integers(90, 110, (PICTURES, 4, 4)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.uint8(chance.integers(25, 80))
    return {"images": images, "labels": labels}


@pytest.fixture(scope="session")
def labels() -> list[int]:
    """The hidden labels."""
    return [int(label) for label in quarters()["labels"]]


@pytest.fixture(scope="session")
def opened_cup(tmp_path_factory) -> Callable[[], Cup]:
    """Returns a function that opens a contest with two teams in which nothing was played."""

    def make() -> Cup:
        cup = Cup(tmp_path_factory.mktemp("season") / "cup")
        cup.path.mkdir()
        np.savez(cup.path / "quarters.npz", **quarters())
        baselines = [{"folder": str(cup.player(name))} for name in ("attack_noop", "defence_honest")]
        (cup.path / "contest.yaml").write_text(json.dumps(CONTEST | {"trial_pictures": 0, "baselines": baselines}))
        seasons.open_contest(cup.path, "tester")
        with seasons.administer(cup.path, "tester") as desk:
            for team, people in TEAMS.items():
                desk.add_team(
                    team, [contest_events.PersonRecord(id=i, name=name, organizer=o) for i, name, o in people]
                )
        return cup

    return make


@pytest.fixture(scope="session")
def cup(opened_cup) -> Cup:
    """A season of two rounds, each with a sealed bundle, and after the second full bundles, one with pictures."""
    made = opened_cup()
    for team, player in ENTRIES:
        made.submit(team, player)
    with pytest.raises(Rejected, match=r"bob@institute\.example"):
        made.submit("House", "attack_noop")
    made.play("initial")
    made.publish("sealed-1", "sealed")
    made.promote()
    made.submit("Corner Shop", "attack_quiet")
    made.play("initial")
    made.promote()
    made.play("final")
    made.publish("sealed-2", "sealed")
    made.publish("full", "full")
    made.publish("pictures", "full", pictures=True)
    return made


@pytest.fixture
def copy(cup, tmp_path) -> Callable[[str], Path]:
    """Returns a function that copies a bundle, so that a test can damage the copy."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(cup.bundles[name], tmp_path / name))

    return make


class Forger:
    """Changes a bundle's folder as its organizers could, and adjusts everything that depends on the change."""

    def __init__(self, folder: Path, key: SigningKey) -> None:
        self.folder, self.key = folder, key

    def document(self, name: str, change: Callable[[Any], Any]) -> None:
        """Changes a JSON document; `change` changes the value in place."""
        value = json.loads((self.folder / name).read_bytes())
        change(value)
        (self.folder / name).write_bytes(encode(value))

    def lines(self, name: str, change: Callable[[list[Any]], Any]) -> None:
        """Changes the values of a JSON Lines file; `change` changes the list in place."""
        values = [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]
        change(values)
        (self.folder / name).write_bytes(encode_lines(values))

    def ledger(self, name: str, change: Callable[[list[Any]], Any]) -> str:
        """Changes the entries of a ledger, chains them again, and returns the new head."""

        def chain(entries: list[Any]) -> None:
            change(entries)
            previous = GENESIS
            for seq, entry in enumerate(entries, start=1):
                entry["seq"] = seq
                if "event" in entry:
                    leaf = leaf_hash(seq, entry["time"], entry["salt"], canonical_json(entry["event"]))
                previous = entry["hash"] = entry_hash(previous, leaf if "event" in entry else entry["leaf"])

        self.lines(name, chain)
        return str(json.loads((self.folder / name).read_text("utf-8").splitlines()[-1])["hash"])

    def contest(self, change: Callable[[list[Any]], Any]) -> None:
        """Changes the contest's ledger, and its head in the manifest."""
        self.manifest(head=self.ledger("contest.jsonl", change))

    def round(self, part: str, change: Callable[[list[Any]], Any]) -> None:
        """Changes a round's ledger, and its head in the contest's ledger, the results and the manifest."""
        before = json.loads((self.folder / part / "ledger.jsonl").read_text("utf-8").splitlines()[-1])["hash"]
        head = self.ledger(f"{part}/ledger.jsonl", change)

        def put(entries: list[Any]) -> None:
            for entry in entries:
                if entry.get("event", {}).get("head") == before:
                    entry["event"]["head"] = head

        self.contest(put)
        self.document(f"{part}/results.json", lambda results: results.update(ledger=head))
        rounds = json.loads((self.folder / MANIFEST).read_bytes())["rounds"]
        for each in rounds:
            each["head"] = head if each["head"] == before else each["head"]
        self.manifest(rounds=[RoundPart(**each) for each in rounds])

    def array(self, entries: list[Any], digest: str, change: Callable[[Any], Any]) -> None:
        """Replaces an array by a changed one, wherever these entries of a ledger name it."""
        text = json.dumps(entries).replace(digest, self._blob(digest, change))
        entries[:] = json.loads(text)

    def _blob(self, digest: str, change: Callable[[Any], Any]) -> str:
        sizes = [(line["digest"], line["size"]) for line in self._index()]
        data = (self.folder / BLOBS).read_bytes()
        blobs, at = MemoryBlobs(), 0
        names = []
        for name, size in sizes:
            part, at = data[at : at + size], at + size
            names.append(put_array(blobs, change(get(part))) if name == digest else blobs.put(part))
        packed_blobs.write_blobs(blobs, names, self.folder)
        return next(name for name, (old, _) in zip(names, sizes, strict=True) if old == digest)

    def recount(self) -> None:
        """Computes the results of a sealed bundle again from its current content."""
        self.sign()
        bundle = Bundle.load(self.folder)
        season = read_contest(bundle).season
        for part in bundle.manifest.rounds:
            record, _, _ = sealed_round_check.read_round(
                bundle, part, sealed_round_check.read_ledger(bundle, part), season
            )
            stated = sealed_round_check.read_stated_results(bundle, part)
            found = sealed_round_check.recount_results(record, part, bundles.resolve_rules, season)
            writer.write_results(
                self.folder, part, sealed_lists.with_measurements(found, sealed_lists.measurements_in(stated))
            )

    def manifest(self, **changes: Any) -> None:
        """Changes the manifest."""
        manifest = BundleManifest.model_validate(json.loads((self.folder / MANIFEST).read_bytes()))
        (self.folder / MANIFEST).write_bytes(encode(manifest.model_copy(update=changes).model_dump(mode="json")))

    def sign(self) -> Path:
        """Writes the list of files again and signs it."""
        manifest = BundleManifest.model_validate(json.loads((self.folder / MANIFEST).read_bytes()))
        writer.write_signed_manifest(self.folder, manifest, self.key)
        return self.folder

    def _index(self) -> list[Any]:
        return [json.loads(line) for line in (self.folder / BLOB_INDEX).read_text("utf-8").splitlines()]


def get(data: bytes) -> Any:
    """Returns the array in these bytes."""
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False).copy()


@pytest.fixture
def forge(cup, copy) -> Callable[..., Forger]:
    """Returns a function that copies a bundle for a forger with the organizers' key, or with another one."""
    return lambda name, key=None: Forger(copy(name), key or cup.key)
