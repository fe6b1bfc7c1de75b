"""A file that describes one job, so that another process can play the rest of it.

`execution.job_input` makes it, `executors.kubernetes.shared_volume` writes and reads it. It is a pydantic model because
it is read from a volume, perhaps by another version.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.events import CoreEvent, FaultRecord, SandboxRecord, Seconds
from orchestrator.domain.ids import Digest


class _AssignmentPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PartialStep(_AssignmentPart):
    """The part of a step that was played when its player had to be replaced and no other player was available.

    `completed` questions of step `step` have an outcome, each a row of `blobs`: the arrays of
    execution.player_questions.DefenceAnswers, whose other rows are NaN. `singles_left` and `sandbox_count` are as
    there; the last `failed_starts` sandboxes did not get ready. `faults`, `seconds`, `fault_seconds` and `fresh` are
    those of StepFinished so far. `sandboxes` are those that ended since the last finished step. `seed` is the seed that
    the latest sandbox got, None if there was none. `replacement_due`: whether the next player of the job's submission
    is opened because of a fault of its own.

    `divergences` counts how often the attack of a query job asked something else when its question was begun again for
    this reason.

    In a query job, `blobs` are those of execution.defence_queries, and `completed` counts the answers. If the attack is
    a submission, `blobs` also have a row of `failures` for each of the step's pictures.
    """

    step: int = Field(ge=0)
    completed: int = Field(ge=0)
    blobs: dict[str, Digest] = {}
    faults: list[FaultRecord] = []
    seconds: Seconds = 0.0
    singles_left: int = Field(default=0, ge=0)
    sandbox_count: int = Field(default=0, ge=0)
    failed_starts: int = Field(default=0, ge=0)
    fault_seconds: Seconds = 0.0
    fresh: bool = True
    sandboxes: list[SandboxRecord] = []
    seed: int | None = None
    replacement_due: bool = True
    divergences: int = Field(default=0, ge=0)

    @property
    def progress(self) -> tuple[int, int]:
        """A value that grows with every question that got an answer or a fault.

        `divergences` comes first, because if an attack asked something else, the earlier answers cannot be used any
        more.
        """
        return self.divergences, self.completed + len(self.faults)


class Assignment(_AssignmentPart):
    """A job with the part of its round's ledger that the job reads.

    `events` are that part, to be folded like a ledger; they begin with RoundOpened, which has the whole contest file.
    `secret` is the round's secret, in hex digits. `image` is the image that plays, by its digest; `attack_image` that
    of the attack that queries it, empty if none does; `partial_step` the part of a step that an earlier attempt left.
    """

    version: Literal[1] = 1
    job: str
    run: str
    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    image: str
    attack_image: str = ""
    events: list[Annotated[CoreEvent, Field(discriminator="kind")]]
    partial_step: PartialStep | None = None
