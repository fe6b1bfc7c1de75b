"""Every cheat of the self-test is caught and named rightly, or gains nothing; the honest are not accused (A9, A10)."""

import pytest

from orchestrator.domain.findings import FindingKind
from orchestrator.sandboxes.docker import container_spec, verify_policy
from orchestrator.sandboxes.linux import masked_paths

from .conftest import CONTAINERS, REPLAY

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


def evidence(played, name: str) -> str:
    """Returns what was found against a defence, for whoever reads a failure."""
    return "\n".join(finding.model_dump_json(indent=1) for finding in played.findings(name)) or "no finding"


def test_a_cheat_changes_its_answers(contests, cheat, seed) -> None:
    """In play it gave so many answers that the honest classifier would not have given: there is something to catch."""
    least, most = cheat.expects.share
    assert least <= contests.with_its_like(cheat, seed).share(cheat.name) <= most


def test_a_cheat_is_caught_and_named(contests, cheat, seed) -> None:
    """There is one finding against it, of its kind and with the rules that it breaks, and it is out."""
    played = contests.with_its_like(cheat, seed)
    findings = played.findings(cheat.name)
    assert len(findings) == 1, evidence(played, cheat.name)
    assert findings[0].kind in cheat.expects.kind, evidence(played, cheat.name)
    assert findings[0].rules == cheat.expects.rules
    (part,) = [part for part in played.results.submissions if part.id == cheat.name]
    assert part.status == "disqualified"


def test_the_honest_are_not_accused(contests, honest, seed) -> None:
    """Nothing is found against it, and it answers like the honest classifier, up to pictures on its boundary."""
    played = contests.with_its_like(honest, seed)
    assert not played.findings(honest.name), evidence(played, honest.name)
    least, most = honest.expects.share
    assert least <= played.share(honest.name) <= most


def test_the_honest_classifier_is_not_accused_beside_a_cheat(contests, cheat, seed) -> None:
    """It plays in every contest of the self-test, whatever is in one sandbox or one question, and nothing is found."""
    played = contests.with_its_like(cheat, seed)
    assert not played.findings("honest"), evidence(played, "honest")


def test_what_is_prevented_gains_nothing(contests, prevented, seed) -> None:
    """Its cells are those of the honest classifier, picture by picture, and so there is nothing to find."""
    played = contests.with_its_like(prevented, seed)
    assert played.cells(prevented.name) == played.cells("honest")
    assert played.share(prevented.name) == 0
    assert not played.findings(prevented.name), evidence(played, prevented.name)


@pytest.mark.soak
def test_a_host_name_of_its_own_would_be_caught(contests, program, monkeypatch) -> None:
    """With the name that the engine gives each container, what the constant one prevents is cheated and found."""
    made = container_spec.container_options

    def named(*args, **kwargs) -> dict:
        return {key: value for key, value in made(*args, **kwargs).items() if key != "Hostname"}

    monkeypatch.setattr(container_spec, "container_options", named)
    cheats_and_is_caught(contests, program("host-name"), "docker")


@pytest.mark.soak
def test_a_drawn_environment_would_be_caught(contests, program) -> None:
    """Folders of the process backend have drawn names: what containers prevent is cheated there, and found."""
    cheats_and_is_caught(contests, program("environment-variables"), "process")


@pytest.mark.skipif(
    CONTAINERS != "docker", reason="where every sandbox has a mount of its own there is nothing to count"
)
@pytest.mark.soak
@pytest.mark.parametrize("slots", [1, 2])
def test_a_readable_counter_would_be_caught(contests, program, monkeypatch, slots, seed) -> None:
    """With the engine's own masks alone what the kernel remembers is cheated with, and found: replays have a copy.

    Everybody on the machine adds to the counter, so how much it tells differs: here it has to tell what a finding is
    promised for.
    """
    engines = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list", "/sys/firmware")
    monkeypatch.setattr(masked_paths, "masked_paths", lambda **_: engines)
    monkeypatch.setattr(verify_policy, "ALWAYS_MASKED", frozenset(engines))
    played = contests.play(("honest", "kernel-memory"), seed=seed, slots=slots)
    assert played.share("kernel-memory") > REPLAY["cheat"]
    assert played.findings("kernel-memory"), "what it kept was there again when it was replayed"
    assert not played.findings("honest"), evidence(played, "honest")


def cheats_and_is_caught(contests, cheat, backend: str) -> None:
    """Asserts that a cheat that is prevented by default cheats here, and is caught."""
    played = contests.play(tuple(sorted(("honest", cheat.name))), backend=backend)
    assert played.share(cheat.name) > 0.05
    assert [finding.kind for finding in played.findings(cheat.name)] == cheat.expects.kind, evidence(played, cheat.name)
    assert not played.findings("honest"), evidence(played, "honest")


@pytest.mark.soak
def test_memory_gains_nothing_by_default(contests, programs) -> None:
    """Where no sandbox sees two versions of a picture, who remembers them has the honest classifier's cells (A9).

    In the quick tier test_memory_gains_nothing_where_versions_never_meet shows it.
    """
    names = [each.name for each in programs if FindingKind.MEMORY in each.expects.kind]
    played = contests.play(tuple(sorted(("honest", *names))), backend="process")
    assert names
    for name in names:
        assert played.cells(name) == played.cells("honest")
