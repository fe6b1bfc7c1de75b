"""One controller for each round: it holds a Lease while it works; another takes it over if it is not renewed.

No controller relies on another's clock. A waiting controller measures, on its own clock, for how long the Lease has not
changed. The holder counts from before it sent its last renewal, and trusts the Lease for two thirds of its time. So a
controller that was stopped for a while knows that it may have been replaced, before it writes anything: it then renews,
which succeeds only if nobody changed the Lease meanwhile.

If the API server is unavailable for less than `RETRY_SECONDS`, neither the waiting controller nor the holder gives up.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from orchestrator.domain.text import printable
from orchestrator.errors import Cancelled, ClusterRefused, ClusterUnavailable, LeaseLost
from orchestrator.executors.kubernetes.api import LEASES, RETRY_SECONDS, Api
from orchestrator.logs import get_logger

LEASE_SECONDS = 30.0
"""How long a Lease outlives its last renewal, in seconds."""
_TRUSTED_SHARE = 2 / 3
_RENEWALS_PER_TERM = 4
_POLLS_PER_TERM = 15

_log = get_logger()


def holder_identity() -> str:
    """Returns a name that no other process has, not even a later one with the same process id."""
    return f"{socket.gethostname()[:63]}-{os.getpid()}-{secrets.token_hex(4)}"


def lease_manifest(name: str) -> dict[str, Any]:
    """Returns a Lease without a holder."""
    labels = {
        "app.kubernetes.io/name": "sparring",
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/part-of": "sparring",
        "app.kubernetes.io/managed-by": "sparring",
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def boot_clock() -> float:
    """Returns seconds that also count while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The right to run one round. As a context manager it releases the Lease at the end.

    Acquire it before the ledger is read, so that everything that another controller wrote is read too.

    Args:
        api: the API, with a patience well below `seconds` (see `Client.with_patience`).
        name: the name of the Lease: `sparring-` and the label value of the round's objects.
        holder: the name of this process; see `holder_identity`.
        seconds: how long the Lease outlives its last renewal.
        clock: returns seconds that never go back.
        patience: seconds without an answer of the API server after which the Lease is given up.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        holder: str,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = boot_clock,
        patience: float = RETRY_SECONDS,
    ) -> None:
        self._api, self._name, self._holder, self._seconds, self._clock = api, name, holder, seconds, clock
        self._patience = patience
        self._renewing = threading.Lock()
        self._lease: dict[str, Any] = {}
        self._renewed: float | None = None
        self._is_lost = False
        self._stop = threading.Event()
        self._renewal_thread: threading.Thread | None = None

    @property
    def is_held(self) -> bool:
        """Whether this controller certainly holds the Lease."""
        renewed = self._renewed
        return not self._is_lost and renewed is not None and self._clock() - renewed < _TRUSTED_SHARE * self._seconds

    def ensure_held(self) -> None:
        """Raises LeaseLost if another controller may hold the Lease, and it cannot be renewed."""
        if self.is_held:
            return
        if self._renewed is None:
            raise LeaseLost(f"the lease {self._name} was never acquired")
        if self._recover():
            return
        ago = self._clock() - self._renewed
        why = "another holds it" if self._is_lost else "another controller may have taken over"
        raise LeaseLost(f"the lease {self._name} was last renewed {ago:.1f} s ago; {why}; run again")

    def acquire(self, report: Callable[[str], None], cancelled: Callable[[], bool] = lambda: False) -> Self:
        """Waits until it holds the Lease, and renews it from then on; calls `report` with what it waits for.

        Raises:
            ClusterUnavailable: the API server did not answer for `patience` seconds.
            ClusterRefused: the API server refused a request.
            Cancelled: `cancelled` returned true while another controller held the Lease.
        """
        seen, since = "", self._clock()
        answered = since
        while True:
            asked_at = self._clock()
            try:
                lease = self._api.read(LEASES, self._name)
                version = str(((lease or {}).get("metadata") or {}).get("resourceVersion"))
                if version != seen:
                    seen, since = version, asked_at
                if self._try_take(lease, self._clock() - since, asked_at):
                    self._renewal_thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)
                    self._renewal_thread.start()
                    return self
                answered = self._clock()
            except ClusterUnavailable:
                if self._clock() - answered >= self._patience:
                    raise
                report(f"the API server does not answer; it is asked for the lease {self._name} again")
            else:
                if lease is not None:
                    holder = printable(str(_spec(lease).get("holderIdentity")), 80)
                    report(f"another controller, {holder}, runs this round; this one goes on when that has ended")
            if cancelled() or self._stop.wait(min(2.0, self._seconds / _POLLS_PER_TERM)):
                raise Cancelled(f"cancelled while another controller had the lease {self._name}")

    def release(self) -> None:
        """Stops renewing, and deletes the Lease if it is still held, so that the next controller gets it at once."""
        self._stop.set()
        if self._renewal_thread is not None:
            self._renewal_thread.join()
            self._renewal_thread = None
        if self.is_held:
            try:
                self._api.delete(LEASES, self._name, str(self._lease["metadata"]["uid"]))
            except (ClusterRefused, ClusterUnavailable) as error:
                _log.warning("lease_not_released", lease=self._name, reason=str(error))
        self._is_lost = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _try_take(self, lease: dict[str, Any] | None, unchanged: float, asked_at: float) -> bool:
        """Takes the Lease if it is free or was not renewed for its whole time; returns whether it is held now."""
        if lease is None:
            new_lease = self._api.create(LEASES, lease_manifest(self._name) | {"spec": self._holder_spec(0)})
        else:
            spec = _spec(lease)
            holder, lasts = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
            if holder and holder != self._holder and unchanged < (lasts if isinstance(lasts, int) else self._seconds):
                return False
            changes = spec.get("leaseTransitions")
            body = lease | {"spec": self._holder_spec(changes + 1 if isinstance(changes, int) else 1)}
            new_lease = self._api.replace(LEASES, body)
        if new_lease is None:
            return False
        self._lease, self._renewed = new_lease, asked_at
        return True

    def _holder_spec(self, transitions: int) -> dict[str, Any]:
        now = _micro_time()
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _renew_until_stopped(self) -> None:
        while not self._is_lost and not self._stop.wait(self._seconds / _RENEWALS_PER_TERM):
            try:
                self._renew()
            except (ClusterRefused, ClusterUnavailable) as error:
                _log.warning("lease_not_renewed", lease=self._name, reason=str(error))

    def _recover(self) -> bool:
        """Tries to renew after the trusted time is over; returns whether the Lease is held, unchanged by others."""
        started_at = self._clock()
        while not (self._is_lost or self._stop.is_set() or self.is_held):
            try:
                self._renew()
            except ClusterUnavailable as error:
                if self._clock() - started_at >= self._patience:
                    return False
                _log.warning("lease_not_renewed", lease=self._name, reason=str(error))
                self._stop.wait(min(2.0, self._seconds / _POLLS_PER_TERM))
            except ClusterRefused as error:
                _log.warning("lease_not_renewed", lease=self._name, reason=str(error))
                return False
        return self.is_held

    def _renew(self) -> None:
        with self._renewing:
            lease, asked_at = self._lease, self._clock()
            new_lease = self._api.replace(LEASES, lease | {"spec": _spec(lease) | {"renewTime": _micro_time()}})
            if new_lease is not None:
                self._lease, self._renewed = new_lease, asked_at
                return
            current_lease = self._api.read(LEASES, self._name)  # changed by our renewal, whose answer was lost, or not
            if current_lease is None or _spec(current_lease).get("holderIdentity") != self._holder:
                self._is_lost = True
            else:
                self._lease = current_lease  # renewed the next time


def _spec(lease: dict[str, Any]) -> dict[str, Any]:
    return lease.get("spec") or {}


def _micro_time() -> str:
    """Returns the time as a MicroTime, which always has six decimals. It is only for people."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
