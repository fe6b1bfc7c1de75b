"""The lease: one holder, another only after its silence, and nobody's clock is believed but one's own."""

import re
import threading
import time
from collections.abc import Iterator

import pytest

from orchestrator.errors import Cancelled, ClusterUnavailable, LeaseLost
from orchestrator.executors.kubernetes.api import LEASES, Client
from orchestrator.executors.kubernetes.lease import Lease, holder_identity
from tests.kubernetes_api import Cluster, Fakes

from .scripted_round import in_thread, wait

NAME = "sparring-0123456789abcdef"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without nodes."""
    with Cluster(Fakes(), ()) as made:
        yield made


@pytest.fixture
def api(cluster) -> Client:
    """Asks it, for half a second at most."""
    return Client.connect_to_url(cluster.url, "default", 0.5)


def spec(cluster: Cluster) -> dict:
    """What the Lease says."""
    return cluster.read("leases", NAME, group="coordination.k8s.io")["spec"]


def quiet(text: str) -> None:
    """Nobody is to be waited for."""
    raise AssertionError(text)


def stop(lease: Lease) -> None:
    """A process that is paused renews nothing."""
    lease._stop.set()
    lease._renewal_thread.join()


def there(cluster: Cluster) -> bool:
    """Whether there is a Lease."""
    return cluster.read("leases", NAME, group="coordination.k8s.io") is not None


def test_a_lease_is_made_renewed_and_removed(cluster, api) -> None:
    """Times have six digits; none stays after a round, and the next holder need not wait."""
    with Lease(api, NAME, "one", 3.0).acquire(quiet) as lease:  # a busy machine may pause its renewals for a second
        lease.ensure_held()
        first = spec(cluster)
        assert (first["holderIdentity"], first["leaseTransitions"]) == ("one", 0)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["renewTime"])
        wait(lambda: spec(cluster)["renewTime"] != first["renewTime"], "a renewal")
        assert spec(cluster)["acquireTime"] == first["acquireTime"]
        assert lease.is_held
    assert not there(cluster)
    assert not lease.is_held
    with Lease(api, NAME, "two", 30).acquire(quiet):
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("two", 0)


def test_a_lease_that_another_has_by_now_is_not_removed(cluster, api) -> None:
    """Somebody deleted it and another made it anew: who held the old one leaves the new one alone."""
    first = Lease(api, NAME, "first", 30).acquire(quiet)
    api.delete(LEASES, NAME)
    second = Lease(api, NAME, "second", 30).acquire(quiet)
    first.release()
    assert spec(cluster)["holderIdentity"] == "second"
    second.release()


@pytest.mark.slow
def test_the_second_waits_while_the_first_renews(api) -> None:
    """However long that is; it says who has it, and it can be cancelled."""
    with Lease(api, NAME, "first", 3.0).acquire(quiet) as first:
        told: list[str] = []
        began = time.monotonic()
        second = Lease(api, NAME, "second", 3.0)
        with pytest.raises(Cancelled):
            second.acquire(told.append, lambda: time.monotonic() - began > 4.0)
        assert (first.is_held, second.is_held) == (True, False)
        assert told[0] == "another controller, first, runs this round; this one goes on when that has ended"


@pytest.mark.slow
def test_silence_is_measured_on_our_own_clock(cluster, api) -> None:
    """A renewal that claims to be long ago, or to come, changes nothing: it is that it changes which counts."""
    first = Lease(api, NAME, "first", 1.0).acquire(quiet)
    stop(first)
    for stamp in ("2001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        held = api.read(LEASES, NAME)
        api.replace(LEASES, held | {"spec": held["spec"] | {"renewTime": stamp}})
        began = time.monotonic()
        second = Lease(api, NAME, f"second-{stamp[:4]}", 1.0).acquire(lambda _: None)
        assert 0.9 < time.monotonic() - began < 5
        stop(second)
        first = second


def test_the_holder_gives_up_before_another_may_take_it(cluster, api) -> None:
    """With no renewal the holder stops believing after two thirds; the other takes it after the whole."""
    now = [100.0]
    first = Lease(api.with_patience(0.05), NAME, "first", 30, clock=lambda: now[0], patience=0).acquire(quiet)
    stop(first)
    cluster.faults.next(503, resource="leases", times=10**6)
    now[0] += 19.9
    first.ensure_held()
    now[0] += 0.2
    with pytest.raises(LeaseLost, match=r"20\.1 s ago"):
        first.ensure_held()
    cluster.faults._waiting.clear()


def test_a_holder_that_nobody_replaced_goes_on(api) -> None:
    """It was paused, or the API server was away: its Lease is as it left it, so it is renewed and held again."""
    now = [100.0]
    first = Lease(api, NAME, "first", 30, clock=lambda: now[0]).acquire(quiet)
    first._renewal_thread = None  # which waits for its next renewal, on the real clock
    now[0] += 90.0
    assert not first.is_held
    first.ensure_held()
    assert first.is_held
    first.release()


def test_a_holder_outlasts_an_api_server_that_is_away(cluster, api) -> None:
    """The time that it trusts its Lease passes; when the server is back before its patience ends, it goes on."""
    lease = Lease(api.with_patience(0.05), NAME, "one", 0.6).acquire(quiet)
    cluster.faults.next(503, resource="leases", times=10**6)
    wait(lambda: not lease.is_held, "a lease that is not believed")
    thread, errors = in_thread(lease.ensure_held)
    thread.join(0.3)
    assert thread.is_alive()
    cluster.faults._waiting.clear()
    thread.join(120)
    assert (thread.is_alive(), errors) == (False, [])
    lease.release()


def test_a_paused_holder_that_wakes_does_not_take_it_back(cluster, api) -> None:
    """Its next renewal meets another's version, and it knows that it lost."""
    first = Lease(api, NAME, "first", 1.0).acquire(quiet)
    stop(first)
    second = Lease(api, NAME, "second", 1.0).acquire(lambda _: None)
    first._renew()
    assert not first.is_held
    with pytest.raises(LeaseLost, match="another holds it"):
        first.ensure_held()
    first.release()
    assert spec(cluster)["holderIdentity"] == "second"
    second.release()


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False])
def test_a_renewal_whose_answer_is_lost_is_no_loss(cluster, api, after) -> None:
    """Whether it was written or not: the holder reads it again and goes on."""
    with Lease(api, NAME, "one", 0.8).acquire(quiet) as lease:
        cluster.faults.disconnect(verb="update", resource="leases", after=after)
        wait(lambda: cluster.faults.seen, "a lost answer")
        time.sleep(1.0)
        lease.ensure_held()


def test_a_lease_that_cannot_be_renewed_is_lost_in_time(cluster, api) -> None:
    """The API server is away for longer than it lasts."""
    lease = Lease(api.with_patience(0.05), NAME, "one", 0.6).acquire(quiet)
    cluster.faults.next(503, resource="leases", times=10**6)
    wait(lambda: not lease.is_held, "a lease that is not believed", 3)
    cluster.faults._waiting.clear()
    lease.release()


def test_an_api_that_is_away_is_no_free_lease(cluster, api) -> None:
    """Nothing is assumed, and it is given up in the end."""
    cluster.faults.next(503, times=10**6)
    with pytest.raises(ClusterUnavailable, match="get leases"):
        Lease(api.with_patience(0.05), NAME, "one", 1, patience=0.2).acquire(lambda _: None)


@pytest.mark.parametrize("waiting", [True, False])
def test_who_waits_outlasts_an_api_server_that_is_away(cluster, api, waiting) -> None:
    """For two minutes, whether another had it before or nobody: it says so, and takes it when the server is back."""
    first = Lease(api, NAME, "first", 30).acquire(quiet) if waiting else None
    told: list[str] = []
    second = Lease(api.with_patience(0.05), NAME, "second", 3.0)
    cluster.faults.next(503, resource="leases", times=10**6)
    thread, errors = in_thread(lambda: second.acquire(told.append))
    wait(lambda: len(told) >= 3, "a controller that waits")
    assert thread.is_alive()
    assert set(told) == {f"the API server does not answer; it is asked for the lease {NAME} again"}
    cluster.faults._waiting.clear()
    if first:
        wait(lambda: "another controller, first" in told[-1], "a controller that knows who has it")
        first.release()
    thread.join(120)
    assert (thread.is_alive(), errors, second.is_held) == (False, [], True)
    second.release()


def test_a_lease_that_somebody_deletes_is_lost(api) -> None:
    """Another may have made it anew."""
    lease = Lease(api, NAME, "one", 0.4).acquire(quiet)
    api.delete(LEASES, NAME)
    wait(lambda: not lease.is_held, "a lost lease")
    lease.release()


def test_of_many_that_begin_at_once_one_holds_it(cluster) -> None:
    """Each in turn, never two."""
    holding, most, turns = [0], [0], []
    lock = threading.Lock()

    def take(name: str) -> None:
        with Lease(Client.connect_to_url(cluster.url, "default", 2), NAME, name, 1.0).acquire(lambda _: None) as lease:
            with lock:
                holding[0] += 1
                most[0] = max(most[0], holding[0])
            time.sleep(0.05)
            lease.ensure_held()
            with lock:
                holding[0] -= 1
                turns.append(name)

    threads = [in_thread(lambda name=name: take(name)) for name in "abcde"]
    for thread, _ in threads:
        thread.join(120)
    assert [errors for _, errors in threads] == [[]] * 5
    assert (most[0], sorted(turns)) == (1, list("abcde"))
    assert not there(cluster)


def test_a_lease_never_acquired_is_not_held(api) -> None:
    """Asking first is a mistake that is told."""
    with pytest.raises(LeaseLost, match="never acquired"):
        Lease(api, NAME, holder_identity()).ensure_held()


def test_no_two_processes_have_one_name() -> None:
    """Not even one with the process id of another that died."""
    assert holder_identity() != holder_identity()
