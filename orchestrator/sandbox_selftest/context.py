"""The settings that every runner of the self-test gets."""

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
"""The prefix of the run ids of checks. A random suffix keeps concurrent checks apart."""


@dataclass(frozen=True, slots=True)
class Context:
    """The backend and image that programs run with. `workspace` is a writable folder, which is removed afterwards.

    `image` has python3. `policy_overrides` are fields of SandboxPolicy to change in every run, with which the self-test
    tests its own verdicts. `device` is the UUID of the GPU that every program gets; None for none.
    """

    backend: Backend
    image: Image
    runtime: Runtime
    workspace: Path
    run: str = field(default_factory=lambda: f"{RUN_PREFIX}-{secrets.token_hex(4)}")
    policy_overrides: Mapping[str, Any] | None = None
    device: str | None = None

    def policy_for(self, program: Program, *, removed: bool) -> SandboxPolicy:
        """Returns the policy of a program's sandbox: that of strangers' submissions, or one without its control."""
        expectation = program.expectation
        changes = (
            expectation.removed if removed and expectation.removed else ControlRemoved(expected=expectation.contained)
        )
        limits = replace(Limits(), **{**expectation.limits, **changes.limits})
        policy = SandboxPolicy(limits=limits, runtime=self.runtime)
        return replace(policy, **{**(self.policy_overrides or {}), **changes.policy})
