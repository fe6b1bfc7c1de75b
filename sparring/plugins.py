"""What plug-ins implement and use: data sets, contest formats, sandboxes, executors, stores.

Each base class says in its reference what a plug-in has to do. An entry point of the group `sparring.datasets`,
`sparring.formats`, `sparring.sandboxes`, `sparring.executors` or `sparring.stores` names the class.
"""

from orchestrator.datasets.base import Dataset, make_samples
from orchestrator.datasets.base import Options as DatasetOptions
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.contest_format import (
    Eligibility,
    Format,
    FormatRules,
    LedgerFold,
    Observations,
    PlayRules,
    RoundOfSeason,
    RoundPlan,
    SeasonRound,
    SeasonState,
)
from orchestrator.domain.leaderboard import Column, Leaderboard, Row, Value, rank_rows
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.plan import Cell
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.samples import Samples
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.errors import BackendUnavailable, Problem, Rejected, SandboxLost, UsageError
from orchestrator.executors.base import Executor, JobHandle
from orchestrator.ledger.stores.base import Blobs, Ledger, LedgerEntry
from orchestrator.reports.blocks import Block, ReportBlocks
from orchestrator.sandboxes.base import (
    Backend,
    BackendSettings,
    BuildRequest,
    Check,
    CheckStatus,
    Ending,
    Exit,
    Image,
    ImageFacts,
    ImageLayer,
    ImageSource,
    ImageStore,
    Sandbox,
    SandboxSpec,
)
from orchestrator.scoring.results_file import Results

__all__ = [
    "Backend",
    "BackendSettings",
    "BackendUnavailable",
    "Blobs",
    "Block",
    "BuildRequest",
    "Cell",
    "Check",
    "CheckStatus",
    "Column",
    "Dataset",
    "DatasetOptions",
    "Eligibility",
    "Ending",
    "Entry",
    "Executor",
    "Exit",
    "Format",
    "FormatEvent",
    "FormatRules",
    "Image",
    "ImageFacts",
    "ImageLayer",
    "ImageSource",
    "ImageStore",
    "JobHandle",
    "Leaderboard",
    "Ledger",
    "LedgerEntry",
    "LedgerFold",
    "Observations",
    "OrganizerAttack",
    "PlayRules",
    "Problem",
    "Rejected",
    "ReportBlocks",
    "Results",
    "Roster",
    "RoundOfSeason",
    "RoundPlan",
    "Row",
    "Runtime",
    "Samples",
    "Sandbox",
    "SandboxLost",
    "SandboxPolicy",
    "SandboxSpec",
    "Season",
    "SeasonRound",
    "SeasonState",
    "Side",
    "Submission",
    "Task",
    "UsageError",
    "Value",
    "make_samples",
    "rank_rows",
]
