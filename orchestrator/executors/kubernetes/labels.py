"""The names and labels of an attempt at a job, for its Job and its folder.

Names are deterministic: a restarted controller asks for the same objects, and 409 means that an object exists.
Submissions' names are hostile text; the names and labels made from them here are only for people to read.
"""

import re
from dataclasses import dataclass

from orchestrator import __version__
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Job

LABEL_PREFIX = "sparring/"
ROUND_LABEL = LABEL_PREFIX + "of"
"""The label of all Jobs and pods of one round, by which its controller selects them."""
JOB_LABEL, ATTEMPT_LABEL = LABEL_PREFIX + "job", LABEL_PREFIX + "attempt"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_MAX_NAME = 24
_MAX_LABEL = 63


def round_label_value(commitment: str) -> str:
    """Returns the label value that identifies the round with this commitment."""
    return commitment.removeprefix("sha256:")[:16]


@dataclass(frozen=True, slots=True)
class RoundRef:
    """The round that objects belong to. `commitment` is the hash of its secret: no two rounds share one."""

    contest: str
    round: str
    task: str
    commitment: str

    @property
    def label_value(self) -> str:
        """The label value that identifies this round."""
        return round_label_value(self.commitment)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job, counted from 1: one Job, one pod, one folder.

    `avoided` are the nodes, on which its submission has played, that its pod should avoid. `refused_by` is the node
    that did not admit the previous attempt's pod, or did not start a player of it; empty if there is none.
    `has_attack`: whether its pod has a second player, the attack that queries the job's defence.
    """

    round_ref: RoundRef
    job: Job
    number: int
    avoided: frozenset[str] = frozenset()
    refused_by: str = ""
    has_attack: bool = False

    @property
    def job_key(self) -> str:
        """Twelve hex digits that all attempts at this job of this round share."""
        return digest(f"{self.round_ref.commitment}\n{self.job.id}").removeprefix("sha256:")[:12]

    @property
    def name(self) -> str:
        """The Job's name, at most 63 characters, a DNS label."""
        return f"{self.job.stage.value}-{_dns_label(self.job.submission)}-{self.job_key}-{self.number}"

    def labels(self) -> dict[str, str]:
        """Returns the labels of the Job and its pod."""
        return {
            "app.kubernetes.io/name": "sparring",
            "app.kubernetes.io/component": "match",
            "app.kubernetes.io/part-of": _label_value(self.round_ref.contest),
            "app.kubernetes.io/managed-by": "sparring",
            "app.kubernetes.io/version": _label_value(__version__),
            ROUND_LABEL: self.round_ref.label_value,
            JOB_LABEL: self.job.id,
            ATTEMPT_LABEL: str(self.number),
            LABEL_PREFIX + "contest": _label_value(self.round_ref.contest),
            LABEL_PREFIX + "round": _label_value(self.round_ref.round),
            LABEL_PREFIX + "task": _label_value(self.round_ref.task),
            LABEL_PREFIX + "stage": self.job.stage.value,
            LABEL_PREFIX + "submission": _label_value(self.job.submission),
        }

    def annotations(self) -> dict[str, str]:
        """Returns the texts of the labels that may be shortened, in full."""
        return {
            LABEL_PREFIX + "contest": self.round_ref.contest,
            LABEL_PREFIX + "round": self.round_ref.round,
            LABEL_PREFIX + "task": self.round_ref.task,
            LABEL_PREFIX + "submission": self.job.submission,
        }


def _dns_label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_NAME].strip("-") or "x"


def _label_value(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_MAX_LABEL].strip("-_.")
