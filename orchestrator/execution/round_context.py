"""The settings that all jobs of a round share and that stay the same through the round."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.domain.access import Access
from orchestrator.domain.ids import derive_seed, digest, picture_seeds
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import Roster, Submission
from orchestrator.domain.tasks import Isolation, Limits, Task
from orchestrator.execution.attack_output_gate import Gate
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.findings import CheckParameters
from orchestrator.ledger.stores.base import Blobs, array_digest
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, QueriesHeader, TaskHeader, Want
from orchestrator.sandboxes.base import Backend, Image

Clock = Callable[[], float]
"""Returns seconds that only go forward, like `time.monotonic`."""


@dataclass(frozen=True)
class RoundContext:
    """A round's task, players, rules of play and tools."""

    contest: str
    round: str
    run: str
    """Labels what this orchestrator starts, so that a later one can find what a killed one left behind."""
    task: Task
    samples: Samples
    policy: SandboxPolicy
    isolation: Isolation
    labels: bool
    on_missing: OnMissing
    on_violation: OnViolation
    replay: SamplingDesign
    seed: int
    secret: bytes
    roster: Roster
    images: Mapping[str, Image]
    backend: Backend
    blobs: Blobs
    clock: Clock
    attack_backend: Backend | None = None
    """The backend that starts an attack that queries a defence, if it is not `backend`."""
    attack_devices: Mapping[str, str] = field(default_factory=dict)
    """The GPU of an attack that queries, by the GPU of the defence that it queries."""
    unstarted: str = ""
    """The submission whose players are known not to start; empty if there is none."""
    keep_scores: bool = False
    """Whether the scores that defences give in play are stored."""
    decides_by_scores: bool = False
    """Whether the class with the largest score is a defence's answer, whatever its label says (B1, B3)."""
    needs_gradients: bool = False
    """Whether a defence is refused after its `ready` if it gives no gradients (rule A12)."""
    allows_chance: bool = False
    """Whether a defence gets a seed with each picture (U13)."""
    access: Access = field(default_factory=Access)
    organizer_attacks: Mapping[str, OrganizerAttack] = field(default_factory=dict)
    """The attacks of the roster that have no image, by their names."""
    picture_sets: Mapping[str, Pixels] = field(default_factory=dict)
    """The pictures u8 [n, c, h, w] of those attacks of the roster that were submitted as pictures, by their ids."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def check_parameters(self) -> CheckParameters:
        """The parameters of this round's determinism checks."""
        return CheckParameters(self.replay, self.isolation, self.limits.classify_batch, self.secret)

    @property
    def limits(self) -> Limits:
        """The limits in the policy."""
        return self.policy.limits

    def seeds_for(self, defence: str, pictures: Iterable[Pixels]) -> list[int] | None:
        """Returns the seed of each picture [c, h, w] for a defence, or None if it may not use randomness (U13)."""
        if not self.allows_chance:
            return None
        return picture_seeds(self.secret, defence, map(array_digest, pictures))

    def gate(self) -> Gate:
        """Returns the gate that checks every candidate of an attack. Raises ValueError if the task has no budget."""
        if self.task.budget is None:
            raise ValueError(f"the task {self.task.name} has no budget, and an attack plays it")
        return Gate(self.task.budget, self.on_missing, self.on_violation)

    def queries(self, attack: str) -> bool:
        """Returns whether an attack queries a defence while it makes pictures, and so makes different ones for each."""
        if attack in self.picture_sets:
            return False
        return attack in self.organizer_attacks or self.access.allows_queries

    def task_header(self) -> TaskHeader:
        """Returns the description of the task that a player gets (rule A2)."""
        budget = self.task.budget
        return TaskHeader(
            name=self.task.name,
            classes=list(self.task.classes),
            shape=list(self.task.shape),
            budget=budget and BudgetHeader(norm=budget.norm.value, epsilon=float(budget.epsilon)),
        )

    def limits_header(self, step_seconds: float, batch: int) -> LimitsHeader:
        """Returns the limits as a player gets them."""
        return LimitsHeader(
            ready_seconds=self.limits.ready_seconds,
            step_seconds=step_seconds,
            batch=batch,
            payload_bytes=self.payload_limit,
            memory_bytes=self.limits.memory,
            threads=self.limits.threads,
        )

    def queries_header(self) -> QueriesHeader | None:
        """Returns the query limits as an attack gets them, or None if the contest allows no queries."""
        if not self.access.allows_queries:
            return None
        prices = {Want(kind): price for kind, price in self.access.prices.items()}
        return QueriesHeader(per_picture=self.access.queries, batch=self.access.batch, prices=prices)

    @property
    def payload_limit(self) -> int:
        """The longest payload read from a player: the largest batch as 32-bit floats, and no less than 64 KiB."""
        c, h, w = self.task.shape
        batch = max(self.limits.perturb_batch, self.limits.classify_batch, self.access.batch)
        return max(4 * batch * max(c * h * w, len(self.task.classes)), 65_536)

    def attack_seed(self, attack: Submission) -> int:
        """Returns an attack's seed, which is public and the same on every backend."""
        return derive_seed(b"attack", str(self.seed), self.task.digest, attack.id)

    def query_key(self, attack: Submission) -> str:
        """Returns the source of an attack's randomness in a query job: its seed, or the secret's hash.

        The organizers' attacks draw from the round's secret: if it were known, a defence could be prepared for their
        pictures.
        """
        return digest(self.secret) if attack.id in self.organizer_attacks else str(self.attack_seed(attack))

    def secret_seed(self, *parts: str) -> int:
        """Returns a seed that cannot be computed before the round's secret is revealed."""
        return derive_seed(self.secret, *parts)
