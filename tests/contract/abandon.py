"""Starts a sandbox and waits to be killed: `abandon.py BACKEND WORKSPACE DIGEST FOLDER RUN WORD...`."""

import os
import sys
import time
from pathlib import Path

from orchestrator import plugins
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.sandboxes.base import BackendSettings, Image, SandboxSpec

name, workspace, digest, folder, run, *words = sys.argv[1:]
backend = plugins.load_plugin("sandboxes", name)(BackendSettings(Path(workspace)))
image = Image(digest, "abandoned", tuple(words), Path(folder) if folder else None)
policy = SandboxPolicy(runtime=Runtime(os.environ.get("SPARRING_TEST_RUNTIME", "runc")))
sandbox = backend.start(SandboxSpec(image, policy, run, "job"))
assert sandbox.receive(time.monotonic() + 60) == b"up"
sys.stdout.write("up\n")
sys.stdout.flush()
time.sleep(600)
