"""One job, put down so that another process can play what is left of it.

`execution.job_input` makes it, `executors.kubernetes.shared_volume` carries it.
A pydantic model because it is read back from a volume, perhaps by another version.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.events import CoreEvent, Digest, FaultRecord, SandboxRecord, Seconds


class _AssignmentPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PartialStep(_AssignmentPart):
    """What was played of a step when its player had to be replaced and there was no other.

    `completed` questions of step `step` have an outcome: a row each of `blobs`, the arrays of
    execution.interactions.DefenceAnswers, with NaN behind them. `singles_left` and `sandbox_count` are as there; the
    last `failed_starts` sandboxes did not get ready. `faults`, `seconds`, `fault_seconds` and `fresh` are as in
    StepFinished, so far; `sandboxes` are those that ended since the last finished step; `seed` is what the latest was
    told, None where there was none. `replacement_due` says that the next player of the job's submission is opened
    because of a fault of its own.

    `divergences` is how often the attack of a query job asked something else as its question began again for this.

    Of a query job `blobs` are those of execution.defence_queries, and `completed` counts the answers. Where the attack
    is a submission they have a row of `failures` for each of the step's pictures as well.
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
        """What grows with every question that came to something, a fault included.

        Where an attack asked something else, answers are of no use any more. So that comes first.
        """
        return self.divergences, self.completed + len(self.faults)


class Assignment(_AssignmentPart):
    """A job, the round that it is part of, and everything of its record that the job reads.

    `events` are the excerpt, to be folded like a ledger; they begin with RoundOpened, which has the whole contest file.
    `secret` is the round's, in hex digits. `image` is what plays, by its digest; `attack_image` the submission that
    queries it, empty where none does; `partial_step` what an earlier attempt left.
    """

    version: Literal[1] = 1
    job: str
    run: str
    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    image: str
    attack_image: str = ""
    events: list[Annotated[CoreEvent, Field(discriminator="kind")]]
    partial_step: PartialStep | None = None
