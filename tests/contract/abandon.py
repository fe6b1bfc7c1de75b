"""Starts a sandbox and waits to be killed: `abandon.py BACKEND WORKSPACE DIGEST FOLDER RUN WORD...`."""

import importlib
import os
import sys
import time
from pathlib import Path

from orchestrator.backends.base import BackendSettings, Image, Order
from orchestrator.domain.policy import Runtime, SandboxPolicy

name, workspace, digest, folder, run, *words = sys.argv[1:]
backend = importlib.import_module(f"orchestrator.backends.{name}").plugin(BackendSettings(Path(workspace)))
image = Image(digest, "abandoned", tuple(words), Path(folder) if folder else None)
policy = SandboxPolicy(runtime=Runtime(os.environ.get("SPARRING_TEST_RUNTIME", "runc")))
sandbox = backend.start(Order(image, policy, run, "job"))
assert sandbox.receive(time.monotonic() + 60) == b"up"
sys.stdout.write("up\n")
sys.stdout.flush()
time.sleep(600)
