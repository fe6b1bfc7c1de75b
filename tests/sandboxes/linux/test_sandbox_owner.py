"""Whose sandbox it is, and whether that orchestrator lives."""

import os
import subprocess
import sys
from dataclasses import replace

from orchestrator.sandboxes.linux import process_tree
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState, start_time

HERE = Owner.current_process()


def test_an_owner_survives_being_written_down():
    """What is written on a label is read back as the same owner; anything else is none."""
    assert Owner.parse(str(HERE)) == HERE
    for text in ("", "a:b", "a:1:2:x:h", "a:1:2:3:h:i", "a:1:2:-3:h"):
        assert Owner.parse(text) is None


def test_this_process_lives():
    """The process that asks is alive."""
    assert HERE.state_seen_by(HERE) is OwnerState.ALIVE


def test_a_dead_process_and_one_of_the_same_number_are_told_apart():
    """A process that ended is dead, and so is one whose number another process has by now."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        other = replace(HERE, pid=child.pid, start_time=start_time(child.pid))
        assert other.state_seen_by(HERE) is OwnerState.ALIVE
        assert replace(other, start_time=other.start_time + 1).state_seen_by(HERE) is OwnerState.DEAD
    assert other.state_seen_by(HERE) is OwnerState.DEAD


def test_another_boot_is_dead_and_another_place_unknown():
    """Before a restart of the machine everything died; another host or container cannot be judged from here."""
    assert replace(HERE, boot="another").state_seen_by(HERE) is OwnerState.DEAD
    assert replace(HERE, host="another").state_seen_by(HERE) is OwnerState.UNKNOWN
    assert replace(HERE, pid_namespace=HERE.pid_namespace + 1).state_seen_by(HERE) is OwnerState.UNKNOWN


def test_a_mark_names_its_owner_and_hides_its_run():
    """A sandbox's mark gives back who started it; the run is not readable in it; two are never the same."""
    one, two = process_tree.ProcessTag.create(HERE, "secret-run"), process_tree.ProcessTag.create(HERE, "secret-run")
    assert one.text != two.text
    assert "secret" not in one.text
    assert process_tree.ProcessTag.parse(one.text) == one
    assert one.owner(HERE).state_seen_by(HERE) is OwnerState.ALIVE
    assert one.run_digest == process_tree.run_digest("secret-run") != process_tree.run_digest("other-run")
    assert process_tree.ProcessTag.parse("sparring-x") is None


def test_ending_a_mark_spares_everybody_else():
    """Only the processes that carry the mark are ended, and their children that dropped it."""
    mark = process_tree.ProcessTag.create(HERE, "run").text
    inner = "import subprocess,sys; subprocess.run([sys.executable, '-c', 'input()'], env={})"
    marked = {**os.environ, process_tree.TAG_VARIABLE: mark}
    pipe = subprocess.PIPE
    with (
        subprocess.Popen([sys.executable, "-c", "print(input())"], stdin=pipe, stdout=pipe) as bystander,
        subprocess.Popen([sys.executable, "-c", inner], stdin=pipe, env=marked, start_new_session=True) as victim,
    ):
        while len(process_tree._process_family(mark, None)) < 2:
            assert victim.poll() is None
        assert mark in process_tree.living_tags()
        assert process_tree.kill_tagged(mark) >= 2
        assert victim.wait(5) == -9
        assert bystander.communicate(b"alive\n")[0] == b"alive\n"
    assert process_tree.kill_tagged(mark) == 0
