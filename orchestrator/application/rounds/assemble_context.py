"""Makes the context of a round, which stays the same through the round, for all callers that play parts of it."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NotRequired, TypedDict, Unpack

from orchestrator.domain.contest_format import Format
from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import Roster
from orchestrator.domain.tasks import Task
from orchestrator.execution.round_context import RoundContext
from orchestrator.intake.contest_file import ContestFile
from orchestrator.ledger.stores.base import Blobs
from orchestrator.sandboxes.base import Backend, Image


class RoundParts(TypedDict):
    """The parts of a round's context that its caller gives: the round, roster, pictures, backend and blobs."""

    round: str
    task: Task
    samples: Samples
    secret: bytes
    roster: Roster
    images: Mapping[str, Image]
    picture_sets: NotRequired[Mapping[str, Pixels]]
    backend: Backend
    blobs: Blobs


def assemble_context(
    file: ContestFile, contest_format: Format[Any], run: str = "", **parts: Unpack[RoundParts]
) -> RoundContext:
    """Returns the context of a round, made from the contest file, its format's rules and the caller's parts.

    `run` labels everything that is started, so that it can be found again; without it a new label is drawn.
    """
    rules = contest_format.play_rules()
    return RoundContext(
        contest=file.contest,
        run=run or f"{file.contest}-{secrets.token_hex(4)}",
        policy=file.sandbox_policy(),
        isolation=file.isolation,
        labels=file.labels is True,
        on_missing=rules.on_missing,
        keep_scores=rules.keep_scores,
        decides_by_scores=rules.decides_by_scores,
        needs_gradients=rules.needs_gradients,
        allows_chance=rules.allows_chance,
        on_violation=rules.on_violation,
        replay=replace(file.replay.design(), power=0.0) if rules.allows_chance else file.replay.design(),
        seed=file.seed,
        clock=time.monotonic,
        access=file.access.to_access(),
        organizer_attacks={attack.name: attack for attack in contest_format.organizer_attacks()},
        **parts,
    )
