"""What an attempt at a job is called, as a Job, as a folder, and in labels.

Names are deterministic: a controller that starts again asks for the same objects, and 409 means that one is there.
Submissions' names are hostile text; what becomes of them here is only for people to read.
"""

import re
from dataclasses import dataclass

from orchestrator import __version__
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Job

PREFIX = "sparring/"
OF = PREFIX + "of"
"""The label that all Jobs and pods of one round have: the one selector of a controller."""
JOB, ATTEMPT = PREFIX + "job", PREFIX + "attempt"
QUEUE = "kueue.x-k8s.io/queue-name"

_LONGEST = 24
_LABEL = 63


def round_label(commitment: str) -> str:
    """Returns the label's value that tells the round of this commitment from all others."""
    return commitment.removeprefix("sha256:")[:16]


@dataclass(frozen=True, slots=True)
class Bout:
    """The round that objects belong to. `commitment` is the hash of its secret: no two rounds share one."""

    contest: str
    round: str
    task: str
    commitment: str

    @property
    def of(self) -> str:
        """The label's value that tells this round from all others."""
        return round_label(self.commitment)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job, counted from 1: one Job, one pod, one folder.

    `avoided` are the nodes that its pod is kept off.
    """

    bout: Bout
    job: Job
    number: int
    avoided: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Twelve hex digits that all attempts at this job of this round share."""
        return digest(f"{self.bout.commitment}\n{self.job.id}").removeprefix("sha256:")[:12]

    @property
    def name(self) -> str:
        """The Job's name, at most 63 characters, a DNS label."""
        return f"{self.job.stage.value}-{_dns(self.job.submission)}-{self.key}-{self.number}"

    def labels(self) -> dict[str, str]:
        """Returns what Job and pod are found by."""
        return {
            "app.kubernetes.io/name": "sparring",
            "app.kubernetes.io/component": "match",
            "app.kubernetes.io/part-of": _label(self.bout.contest),
            "app.kubernetes.io/managed-by": "sparring",
            "app.kubernetes.io/version": _label(__version__),
            OF: self.bout.of,
            JOB: self.job.id,
            ATTEMPT: str(self.number),
            PREFIX + "contest": _label(self.bout.contest),
            PREFIX + "round": _label(self.bout.round),
            PREFIX + "task": _label(self.bout.task),
            PREFIX + "stage": self.job.stage.value,
            PREFIX + "submission": _label(self.job.submission),
        }

    def annotations(self) -> dict[str, str]:
        """Returns the same texts unshortened."""
        return {
            PREFIX + "contest": self.bout.contest,
            PREFIX + "round": self.bout.round,
            PREFIX + "task": self.bout.task,
            PREFIX + "submission": self.job.submission,
        }


def _dns(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST].strip("-") or "x"


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_LABEL].strip("-_.")
