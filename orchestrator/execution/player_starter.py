"""How a player comes on: its sandbox is started, it is greeted, and waited for until it has loaded."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.domain.submissions import Side, Submission
from orchestrator.execution import player_pool
from orchestrator.execution.ambiguous_exits import AmbiguousExitTracker
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import SandboxExit
from orchestrator.execution.round_context import RoundContext
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import Session
from orchestrator.sandboxes.base import Sandbox, SandboxSpec


@dataclass(eq=False)
class PlayerStarter:
    """Opens the players of one job, one after another: see casting.Opener.

    `seed` is asked for the seed of every sandbox of a defence, unless `repeated` is one that is told once more; an
    attack's is the same in each. `told` are the seeds that were told, the latest last.
    """

    setting: RoundContext
    submission: Submission
    job: str
    device: str | None
    seed: Callable[[], int]
    leaves: list[SandboxExit] = field(default_factory=list)
    doubts: AmbiguousExitTracker = field(default_factory=AmbiguousExitTracker)
    told: list[int] = field(default_factory=list)
    repeated: int | None = None
    seat: Callable[[Sandbox], Sandbox] = lambda sandbox: sandbox
    """Is handed every sandbox, to listen to what is said."""
    fresh_copy: FreshCopy | None = None
    """What is started in place of the submission's image, where that is not to be known to the kernel."""

    def repeat(self, seed: int | None) -> None:
        """Tells the sandboxes to come this seed; with None each is told one of its own again."""
        self.repeated = seed

    @property
    def latest(self) -> int | None:
        """The seed that was told last, None where none was."""
        return self.told[-1] if self.told else None

    def open(self) -> Player:
        """Returns a player that has loaded.

        Raises:
            SubmissionFault: it did not get ready. How its sandbox ended is noted.
            InfrastructureFault: it could not be started.
        """
        setting, limits = self.setting, self.setting.limits
        attack = self.submission.side is Side.ATTACK
        order = SandboxSpec(
            image=setting.images[self.submission.id] if self.fresh_copy is None else self.fresh_copy.image(),
            policy=setting.policy,
            run=setting.run,
            job=self.job,
            device=self.device,
        )
        session = Session(Role(self.submission.side.value), len(setting.task.classes), setting.payload_limit)
        sandbox = self.seat(setting.backend.start(order))
        player = Player(sandbox, session, setting.clock, setting.cancelled.is_set, self.doubts)
        seed = setting.attack_seed(self.submission) if attack else self._next_seed()
        step = (
            (limits.perturb_seconds, limits.perturb_batch)
            if attack
            else (limits.classify_seconds, limits.classify_batch)
        )
        self.told.append(seed)
        try:
            player.greet(setting.task_header(), setting.limits_header(*step), seed)
        except BaseException as fault:
            player_pool.end_player(player.stop, self.leaves, fault)
            raise
        return player

    def _next_seed(self) -> int:
        fresh = self.seed()  # also where it is not used: seeds are counted by sandboxes, which are on record
        return fresh if self.repeated is None else self.repeated
