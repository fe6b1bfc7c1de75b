"""What every runner of the self-test is told."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.sandbox_selftest.expectation import ControlRemoved, Program
from orchestrator.sandboxes.base import Backend, Image

RUN_PREFIX = "sandbox-check"
"""How the runs of checks begin. Each has a word of its own behind it, so that two at a time keep apart."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where programs are run. `image` has python3; `workspace` is a folder to write to, removed afterwards.

    `policy_overrides` names fields of SandboxPolicy that every run gets otherwise: the self-test's own test of its
    judgement. `device` is the UUID of the GPU that every program gets; None for none.
    """

    backend: Backend
    image: Image
    runtime: Runtime
    workspace: Path
    run: str = field(default_factory=lambda: f"{RUN_PREFIX}-{secrets.token_hex(4)}")
    policy_overrides: Mapping[str, Any] | None = None
    device: str | None = None

    def policy_for(self, program: Program, *, removed: bool) -> SandboxPolicy:
        """Returns what the program's sandbox may do: as strangers' submissions get it, or with its control removed."""
        expectation = program.expectation
        without = (
            expectation.removed if removed and expectation.removed else ControlRemoved(expected=expectation.contained)
        )
        limits = replace(Limits(), **{**expectation.limits, **without.limits})
        policy = SandboxPolicy(limits=limits, runtime=self.runtime)
        return replace(policy, **{**(self.policy_overrides or {}), **without.policy})
