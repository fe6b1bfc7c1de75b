"""Measures what a player on a GPU leaves to the next one: memory, counters, and a kernel that never ends.

    python bench/gpu_remains.py [--gibibytes 16] [--json]

Each player is a process of its own, as in a sandbox: one GPU, no other process on it. The first fills memory with a
pattern and ends; the next allocates as much, does not write to it, and counts words with the pattern. A player computes
between two readings of all counters that the driver shows to everybody; with the counters that it changed, one player
could tell something to the next. Last, a player starts a kernel that never ends and is killed; the next one computes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from typing import Any

PATTERN = 0x5A17C0DE
FILL = """
import sys, torch
words = torch.full((int(sys.argv[1]),), int(sys.argv[2]), dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
print(int(words[-1]))
"""
COUNT = """
import sys, torch
words = torch.empty(int(sys.argv[1]), dtype=torch.int32, device="cuda")
print(int((words == int(sys.argv[2])).sum()), int((words != 0).sum()))
"""
COMPUTE = """
import torch
a = torch.rand(8192, 8192, device="cuda")
for _ in range(200):
    a = (a @ a).tanh()
print(float(a.sum()))
"""
SPIN = """
import torch
kernel = "extern \\"C\\" __global__ void spin(volatile int* word) { while (word[0] == 0) {} }"
spin = torch.cuda._compile_kernel(kernel, "spin")
word = torch.zeros(1, dtype=torch.int32, device="cuda")
spin(grid=(132, 1, 1), block=(128, 1, 1), args=(word,))
print("spinning", flush=True)
torch.cuda.synchronize()
"""
SHARED_WRITE = """
import torch
kernel = '''extern "C" __global__ void leave(int pattern) {
    __shared__ int words[12000];
    for (int i = threadIdx.x; i < 12000; i += blockDim.x) ((volatile int*)words)[i] = pattern;
}'''
leave = torch.cuda._compile_kernel(kernel, "leave")
for _ in range(100):
    leave(grid=(1056, 1, 1), block=(256, 1, 1), args=(int(__import__("sys").argv[1]),))
torch.cuda.synchronize()
print("left")
"""
SHARED_COUNT = """
import torch
kernel = '''extern "C" __global__ void look(int pattern, int* found) {
    __shared__ int words[12000];
    int mine = 0;
    for (int i = threadIdx.x; i < 12000; i += blockDim.x) mine += ((volatile int*)words)[i] == pattern;
    atomicAdd(found, mine);
}'''
look = torch.cuda._compile_kernel(kernel, "look")
found = torch.zeros(1, dtype=torch.int32, device="cuda")
look(grid=(1056, 1, 1), block=(256, 1, 1), args=(int(__import__("sys").argv[1]), found))
print(int(found))
"""


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gibibytes", type=int, default=16, help="memory that is filled and looked at")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    for name, measure in MEASUREMENTS.items():
        found[name] = measure(asked)
        if not asked.json:
            print(f"{name}: {found[name]}", flush=True)
    if asked.json:
        print(json.dumps(found, indent=2))
    return 0


def memory(asked: argparse.Namespace) -> str:
    """Returns how much of the filled memory the next player finds."""
    words = str(asked.gibibytes * 1024**3 // 4)
    play(FILL, words, str(PATTERN))
    pattern, other = play(COUNT, words, str(PATTERN)).split()
    return f"{pattern} of {words} words with the pattern, {other} not zero"


def shared_memory(_: argparse.Namespace) -> str:
    """Returns how much the next player finds of the memory that the threads of a block share."""
    play(SHARED_WRITE, str(PATTERN))
    return f"{play(SHARED_COUNT, str(PATTERN))} of {1056 * 12_000} words with the pattern"


def changed_counters(_: argparse.Namespace) -> str:
    """Returns the counters that change while a player computes, and those of them that also change by themselves."""
    before, quiet = counters(), counters()
    play(COMPUTE)
    after = counters()
    own = {name for name in quiet if before.get(name) != quiet[name]}
    rows = [
        f"\n    {name}: {quiet.get(name)} -> {after[name]}{' (changes by itself too)' if name in own else ''}"
        for name in sorted(after)
        if quiet.get(name) != after[name]
    ]
    return "".join(rows)


def endless_kernel(_: argparse.Namespace) -> str:
    """Kills a player in an endless kernel; returns how long it takes until the next one has computed."""
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout
        if not player.stdout.readline():
            return "the kernel did not start"
        time.sleep(1)
        began = time.perf_counter()
        player.kill()
        player.wait()
        ended = time.perf_counter()
        play(COUNT, "1024", "0")
    later = time.perf_counter() - ended
    return f"ended {ended - began:.2f} s after it was killed, the next player computed {later:.2f} s later"


def play(program: str, *arguments: str) -> str:
    """Runs a player and returns what it printed."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"a player failed: {''.join(done.stderr.strip().splitlines()[-1:])}", file=sys.stderr)
        sys.exit(3)
    return done.stdout.strip()


def counters() -> dict[str, str]:
    """Returns the values that the driver shows to everybody, by their path in the document of `nvidia-smi`."""
    user = 65_534 if os.getuid() == 0 else None  # players run as this user, nobody
    text = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True, user=user).stdout
    found: dict[str, str] = {}

    def walk(node: Any, path: str) -> None:
        if node.text and node.text.strip():
            found[path] = node.text.strip()
        for child in node:
            walk(child, f"{path}/{child.tag}")

    walk(ET.fromstring(text).find("gpu"), "gpu")  # noqa: S314  the driver's own document
    return found


MEASUREMENTS = {
    "memory": memory,
    "counters": changed_counters,
    "shared memory": shared_memory,
    "endless kernel": endless_kernel,
}


if __name__ == "__main__":
    sys.exit(main())
