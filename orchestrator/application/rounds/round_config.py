"""What a contest file says of how its rounds are played, as execution takes it."""

import secrets
import time
from typing import Any, TypedDict

from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.round_context import Clock
from orchestrator.intake.contest_file import ContestFile
from orchestrator.integrity.power import SamplingDesign


class RoundConfig(TypedDict):
    """The part of a `Setting` that follows from the contest file alone, and the clock."""

    contest: str
    run: str
    policy: SandboxPolicy
    isolation: Isolation
    labels: bool
    on_missing: OnMissing
    on_violation: OnViolation
    replay: SamplingDesign
    seed: int
    clock: Clock


def round_config(file: ContestFile, rules: Any) -> RoundConfig:
    """Returns how a contest is played under its format's rules; each call names a run of its own."""
    return RoundConfig(
        contest=file.contest,
        run=f"{file.contest}-{secrets.token_hex(4)}",
        policy=file.sandbox_policy(),
        isolation=file.isolation,
        labels=file.labels is True,
        on_missing=rules.on_missing,
        on_violation=rules.on_violation,
        replay=file.replay.design(),
        seed=file.seed,
        clock=time.monotonic,
    )
