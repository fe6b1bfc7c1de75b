"""How a controller waits for its next look: changes come together, and a driver's last word does not wait for them."""

from itertools import count

from orchestrator.executors.kubernetes.watch_wakeup import ChangeNotifier

from .scripted_round import FakeLease


def test_a_last_word_ends_even_the_least_wait() -> None:
    """It is looked for at every glance, from the first on; an hour is not waited for."""
    asked = count()
    ChangeNotifier(FakeLease(), "x=y").wait_for_change(3600, 3600, 0.001, lambda: next(asked) == 3)
    assert next(asked) == 4


def test_a_change_waits_for_others() -> None:
    """What has changed counts once the least time is over; without one, the most time is."""
    hints = ChangeNotifier(FakeLease(), "x=y")
    hints._changed.set()
    asked = count()
    hints.wait_for_change(0.02, 3600, 0.01, lambda: next(asked) < 0)
    assert next(asked) >= 1
    assert not hints._changed.is_set()
    hints.wait_for_change(0, 0.02, 0.01, lambda: False)
