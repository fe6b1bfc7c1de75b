"""What plug-ins implement: data sets, contest formats, sandboxes, executors, stores.

Each base class says in its reference what a plug-in has to do. An entry point of the group `sparring.datasets`,
`sparring.formats`, `sparring.sandboxes`, `sparring.executors` or `sparring.stores` names the class.
"""

from orchestrator.datasets.base import Dataset, make_samples
from orchestrator.datasets.base import Options as DatasetOptions
from orchestrator.domain.contest_format import Format
from orchestrator.domain.samples import Samples
from orchestrator.executors.base import Executor
from orchestrator.ledger.stores.base import Blobs, Ledger
from orchestrator.sandboxes.base import Backend, BackendSettings, Sandbox

__all__ = [
    "Backend",
    "BackendSettings",
    "Blobs",
    "Dataset",
    "DatasetOptions",
    "Executor",
    "Format",
    "Ledger",
    "Samples",
    "Sandbox",
    "make_samples",
]
