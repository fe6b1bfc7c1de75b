"""The process whose forks are commands and drivers: it has made their imports, which would take most of their time."""

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.preloaded"])
