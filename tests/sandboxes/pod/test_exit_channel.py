"""The fifo backend without a pod: what it says then, and which lines of its shell count."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.errors import BackendUnavailable, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import BackendSettings, CheckStatus, ImageSource
from orchestrator.sandboxes.pod import fifo_pipes
from orchestrator.sandboxes.pod.backend import PodBackend, _require_policy
from orchestrator.sandboxes.pod.exit_channel import ExitChannel, PlayerIdentity, draw_token


def test_play_refuses_to_be_any_process_but_the_first():
    """Started by hand it would end every process of its user, so it does not start."""
    script = Path(__file__).parents[3] / "images" / "runner" / "play"
    done = subprocess.run(["sh", str(script), "1", "1", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "first process of a container" in done.stderr


class TestElsewhere:
    """Where there is no pod."""

    def test_a_machine_without_fifos_is_no_pod(self, tmp_path):
        """The check, the examination and a start say so, each with what to do."""
        backend = PodBackend(BackendSettings(tmp_path))
        with pytest.raises(BackendUnavailable, match=r"no FIFOs ctl, in, out, err, end .* or `process`"):
            backend.require_available(Runtime.RUNSC)
        [check] = backend.diagnose()
        assert (check.status, bool(check.remedy)) == (CheckStatus.ABSENT, True)
        assert check.remedy not in check.detail
        for name in ("ctl", "in", "out", "err"):
            os.mkfifo(tmp_path / name)
        (tmp_path / "end").write_text("no FIFO")
        with pytest.raises(BackendUnavailable, match="no FIFOs end in"):
            backend.require_available()

    def test_there_are_no_images(self, tmp_path):
        """Images are the cluster's affair: looking into them and making them is a usage error, as is a mere name."""
        backend = PodBackend(BackendSettings(tmp_path))
        with pytest.raises(UsageError, match="use docker"):
            backend.inspect_image("x")
        with pytest.raises(UsageError, match="--backend docker"):
            backend.image_store()
        with pytest.raises(Rejected, match="not named by its digest"):
            backend.admit(ImageSource(image="team/entry:1"))
        digest = f"sha256:{'a' * 64}"
        assert backend.admit(ImageSource(image=f"registry:5000/team/entry@{digest}")).digest == digest


class TestNotes:
    """What counts of what is written where the player writes too."""

    def test_a_line_counts_however_it_is_cut(self):
        """With any garbage before it and cut anywhere, the word's first lines count, and no later ones."""
        word = draw_token()
        ours = f"garbage\n{word} here 20000 0 1 2 0\n\n{word} last 7 2 4096 - 1500000000 9\n\n{word} last 0 0 1 1 1 1\n"
        for size in (1, 7, 4096):
            notes = ExitChannel(word)
            for at in range(0, len(ours), size):
                notes.feed(ours[at : at + size].encode())
            assert (notes.identity.user, notes.identity.seccomp) == (20000, 2)
            last = notes.exit_report
            assert (last.status, last.kills, last.peak_bytes, last.cpu_seconds, last.peak_pids) == (7, 2, 4096, 1.5, 9)

    def test_nothing_else_counts(self):
        """Another word, a part of it, or a line that does not begin with it is garbage."""
        word = draw_token()
        notes = ExitChannel(word)
        for line in (f"\n{word[:-1]}0 last 0 0 1 1 1 1\n", f"x{word} last 0 0 1 1 1 1\n", "\nlast 0 0 1 1 1 1\n"):
            notes.feed(line.encode() if word[-1] != "0" or "x" in line else b"")
        assert (notes.identity, notes.exit_report) == (None, None)

    def test_a_line_of_another_version_is_ours(self):
        """With the word and other fields than are known here, the two images do not fit: SandboxLost."""
        word = draw_token()
        with pytest.raises(SandboxLost, match="same runner image"):
            ExitChannel(word).feed(f"\n{word} last 0 0\n".encode())


def test_names_agree_with_the_scripts():
    """`prepare` makes the FIFOs that are opened here."""
    script = (Path(__file__).parents[3] / "images" / "runner" / "prepare").read_text()
    made = [name for line in script.splitlines() if line.startswith("mkfifo") for name in line.split()[3:]]
    assert sorted(made) == sorted(fifo_pipes.FIFO_NAMES)


@pytest.mark.parametrize("runtime", Runtime)
def test_a_filter_of_calls_is_asked_for_where_the_kernel_is_the_hosts(runtime):
    """GVisor and a guest of Kata say that nothing filters the player's calls: another kernel answers them."""
    policy, here = SandboxPolicy(runtime=runtime), PlayerIdentity(20_000, 0, 1, 0, 0)
    if runtime is Runtime.RUNC:
        with pytest.raises(SandboxLost, match="seccomp: wanted 2, got 0"):
            _require_policy(policy, here)
    else:
        _require_policy(policy, here)
    with pytest.raises(SandboxLost, match="capabilities"):
        _require_policy(policy, replace(here, capabilities=1, seccomp=2))
