"""A scripted backend: players as functions in this process, and an engine that fails on command.

It is a test double for what no real engine does on command: losing a sandbox at a chosen moment. Everything else about
players is tested with real ones (tests/contract, tests/e2e).
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from orchestrator.domain.access import Access
from orchestrator.domain.events import SandboxRecord
from orchestrator.domain.organizer_attacks import ORGANIZERS, AttackedPicture, OrganizerAttack
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.plan import Cell
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Budget, Isolation, Limits, Norm, Task
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.execution.planner import make_plan
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.execution.round_runner import RoundRunner
from orchestrator.executors.local import LocalExecutor
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.memory import MemoryBlobs, MemoryLedger
from orchestrator.protocol import frames
from orchestrator.sandboxes.base import Ending, Exit, Image, never_cancelled

EMPTY = b""
QUICK = Limits(perturb_batch=4, classify_seconds=0.2, perturb_seconds=0.2, ready_seconds=0.5, restarts=2)


class ScriptedPool(PlayerPool):
    """A pool of players that a function makes, without a sandbox or a round."""

    def __init__(self, make_player: Callable[[], Any], *, prestart_allowed: bool = False) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, "job", lambda: 0, prestart_allowed=prestart_allowed)
        self._make_player = make_player

    def _start_player(self, start: Any) -> Any:
        """Returns the next player."""
        return self._make_player()


class ScriptedSandbox:
    """Answers each frame by calling `play(header, payload)`; None is silence, EMPTY is the end."""

    def __init__(
        self,
        play: Callable,
        ended: Callable[["ScriptedSandbox"], None],
        ending=Ending.CRASHED,
        cpu_seconds: float | None = None,
    ) -> None:
        self._play, self._ended, self._ending, self._cpu_seconds = play, ended, ending, cpu_seconds
        self._decoder = frames.FrameDecoder(1 << 24)
        self._out: deque[bytes] = deque()
        self._over = False
        self.stopped = 0

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Gives the frames to the player."""
        del deadline, cancelled
        self._decoder.feed(data)
        while (frame := self._decoder.next_frame()) is not None:
            if frame.header["type"] == "bye":
                self._over = True
                return True
            answer = self._play(frame.header, bytes(frame.payload))
            if answer == EMPTY:
                self._over = True
            elif answer is not None:
                self._out.append(answer)
        return True

    def receive(self, deadline: float) -> bytes | None:
        """Returns what the player answered."""
        if self._out:
            return self._out.popleft()
        if self._over:
            return b""
        time.sleep(max(0.0, min(deadline - time.monotonic(), 0.05)))
        return None

    def stop(self) -> Exit:
        """Ends it."""
        self.stopped += 1
        if self.stopped == 1:
            self._ended(self)
        ending, code = (self._ending, 1) if self._over else (Ending.STOPPED, None)
        return Exit(ending, code=code, cpu_seconds=self._cpu_seconds)


@dataclass
class ScriptedBackend:
    """Starts scripted players by their image's name. `lose` decides whether one is lost at a start or a question.

    It returns True or an error to lose it. A player is a function, or a class; then each sandbox makes its own with its
    seed and sets its `number`: the first sandbox started for that image has 1. Sandboxes that start together may say
    `hello` in any order, so a player that has to know how many there were before must not count its objects. The
    backend is unavailable for the next `away` checks. `cpu_seconds` has the processor time of each sandbox by image.
    """

    players: dict[str, Callable]
    lose: Callable[[str, int], Any] = lambda _what, _count: False
    name: str = "scripted"
    live: dict[str | None, int] = field(default_factory=dict)
    most: dict[str | None, int] = field(default_factory=dict)
    orders: list[Any] = field(default_factory=list)
    seed_of_start: dict[int, int] = field(default_factory=dict)
    questions: int = 0
    away: int = 0
    copied: list[str] = field(default_factory=list)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def seeds(self) -> list[int]:
        """The seeds that sandboxes were told, in the order in which these were started."""
        with self._lock:
            return [self.seed_of_start[number] for number in sorted(self.seed_of_start)]

    def require_available(self, runtime=None) -> None:
        """Raises if the backend is unavailable."""
        with self._lock:
            self.away -= 1
            if self.away >= 0:
                raise BackendUnavailable("nobody answers")

    def _lose(self, what: str, count: int) -> None:
        if lost := self.lose(what, count):
            raise lost if isinstance(lost, Exception) else SandboxLost(f"lost at {what} {count}")

    def fresh_copy(self, image, run):
        """Returns an image with another digest, and records that it was made and removed."""
        with self._lock:
            copied = f"{image.digest}-copy-"
            self.copied.append(copied)
        return replace(image, digest=copied, rollback=lambda: self.copied.remove(copied))

    def start(self, order) -> ScriptedSandbox:
        """Starts a player, or loses it."""
        with self._lock:
            self.orders.append(order)
            number = len(self.orders)
            number_of_image = sum(earlier.image.name == order.image.name for earlier in self.orders)
            self._lose("start", number)
            self.live[order.device] = self.live.get(order.device, 0) + 1
            self.most[order.device] = max(self.most.get(order.device, 0), self.live[order.device])
        player = self.players[order.image.name]
        own = []

        def play(header, payload):
            with self._lock:
                if header["type"] == "hello":
                    self.seed_of_start[number] = header["seed"]
                    own.append(player(header["seed"]) if isinstance(player, type) else player)
                    if isinstance(player, type):
                        own[0].number = number_of_image
                    gives = getattr(player, "gives", ["label"])
                    return frames.encode_frame({"type": "ready", "id": header["id"], "gives": gives})
                self.questions += 1
                self._lose("question", self.questions)
            return own[0](header, payload)

        def ended(_sandbox) -> None:
            with self._lock:
                self.live[order.device] -= 1

        return ScriptedSandbox(play, ended, cpu_seconds=self.cpu_seconds.get(order.image.name))


def shift(header, payload):
    """An attack that adds one to every value."""
    pixels = np.frombuffer(payload, np.uint8) + 1
    index = list(range(header["shape"][0]))
    answer = {"type": "candidates", "id": header["id"], "index": index, "dtype": "u8", "shape": header["shape"]}
    return frames.encode_frame(answer, pixels.astype(np.uint8).tobytes())


def first_value(header, payload):
    """A defence that answers the first value modulo 4: exactly wrong after `shift`."""
    size = len(payload) // header["shape"][0]
    labels = [payload[place * size] % 4 for place in range(header["shape"][0])]
    return frames.encode_frame({"type": "answers", "id": header["id"], "labels": labels})


class Brighten(OrganizerAttack):
    """Adds one to a picture until the defence is wrong, six times at most; its last value is drawn at random."""

    name, queries_per_picture, digest = "brighten", 6, "sha256:brighten"

    def __init__(self, first=12) -> None:
        self.first, self.asked = first, []

    def pictures(self, count):
        """Returns the first so many."""
        return min(count, self.first)

    def play(self, samples, pictures, generators, defence, budget):
        """Asks about one picture after another."""
        for picture, generator in zip(pictures, generators, strict=True):
            pixels, queries = samples.pixels[picture].copy(), 0
            pixels[0, -1, -1] = generator.integers(100, 200)
            while queries < self.queries_per_picture:
                self.asked.append(picture)
                queries += 1
                if defence.ask(pixels[None], np.array([picture], np.int32)).answers[0] != samples.labels[picture]:
                    break
                pixels[0, 0, 0] += 1
            yield AttackedPicture(picture, pixels, queries, "" if picture else "given up")


@dataclass
class Stage:
    """A round on the scripted backend, kept in memory."""

    backend: ScriptedBackend
    setting: RoundContext
    ledger: MemoryLedger
    record: RoundView

    def cells(self) -> tuple[Cell, ...]:
        """Returns every cell."""
        attacks = [None, *(a.id for a in self.setting.roster.by_side(Side.ATTACK))]
        return tuple(Cell(d.id, attack) for d in self.setting.roster.by_side(Side.DEFENCE) for attack in attacks)

    def plan(self):
        """Returns the round's plan."""
        return make_plan(self.setting, self.cells())

    def run(self, devices=(None,), watch=lambda _event: None) -> RoundView:
        """Plays the round, or the rest of it."""
        dispatcher = RoundRunner(self.setting, self.ledger, self.record, lambda: "2026-03-01T08:00:00.000+00:00", watch)
        if self.record.round.opening is None:
            dispatcher.open_round({"contest": "test", "isolation": self.setting.isolation.value})
        dispatcher.run(LocalExecutor(devices), self.cells())
        return self.record

    def go_on(self) -> RoundView:
        """Plays the rest of the round, as another orchestrator that knows only the ledger."""
        self.record = RoundView(self.setting.blobs, (entry.event for entry in self.ledger.read()))
        self.setting.cancelled.clear()
        return self.run()

    def events(self, kind: str) -> list[Any]:
        """Returns the events of one type."""
        return [entry.event for entry in self.ledger.read() if entry.event.kind == kind]

    def sandboxes(self, submission: str, stage: JobStage) -> list[list[SandboxRecord]]:
        """Returns the sandboxes of each job of a submission, wherever the ledger has them."""
        jobs = [job.id for job in self.plan().jobs if (job.submission, job.stage) == (submission, stage)]
        told = [*self.events("step_finished"), *self.events("job_finished")]
        return [[s for event in told if event.job == job for s in event.sandboxes] for job in jobs]


@pytest.fixture
def stage():
    """Returns a function that sets up a round of attacks and defences, each a function, on twelve small pictures."""

    def make(
        attacks=None, defences=None, *, images=None, limits=None, organizer_attacks=(), access=None, **changes: Any
    ) -> Stage:
        attacks = {"shift": shift} if attacks is None else attacks
        defences = {"first": first_value} if defences is None else defences
        names = {name: (images or {}).get(name, name) for name in (*attacks, *defences)}
        submissions = [
            Submission(name, name, f"team {name}", side, f"sha256:{names[name]}", names[name])
            for side, players in ((Side.ATTACK, attacks), (Side.DEFENCE, defences))
            for name in players
        ]
        submissions += [
            Submission(each.name, each.name, ORGANIZERS, Side.ATTACK, each.digest, "", baseline=True)
            for each in organizer_attacks
        ]
        backend = ScriptedBackend({**attacks, **defences})
        pixels = np.arange(12, dtype=np.uint8).repeat(4).reshape(12, 1, 2, 2)
        samples = Samples(pixels, np.arange(12) % 4, ("a", "b", "c", "d"))
        blobs = MemoryBlobs()
        setting = RoundContext(
            contest="test",
            round="round-1",
            run="run",
            task=Task(
                "t", samples.classes, samples.shape, 12, samples.digest, Budget(Norm.LINF, changes.pop("epsilon", 2))
            ),
            samples=samples,
            policy=SandboxPolicy(limits or QUICK),
            isolation=changes.pop("isolation", Isolation.ATTACK),
            labels=True,
            on_missing=changes.pop("on_missing", OnMissing.HELD),
            on_violation=changes.pop("on_violation", OnViolation.FORFEIT),
            replay=changes.pop("replay", SamplingDesign(power=0.5, cheat=0.1)),
            seed=1,
            secret=b"s" * 32,
            roster=Roster(tuple(submissions)),
            images={name: Image(digest=f"sha256:{names[name]}", name=names[name]) for name in names},
            backend=backend,
            blobs=blobs,
            clock=time.monotonic,
            access=access or Access(),
            needs_gradients=changes.pop("needs_gradients", False),
            organizer_attacks={each.name: each for each in organizer_attacks},
        )
        assert not changes, changes
        return Stage(backend, setting, MemoryLedger(), RoundView(blobs))

    return make
