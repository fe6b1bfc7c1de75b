"""The entry point of `sparring` and `python -m orchestrator`."""

import atexit
import gc
import os
import sys

from orchestrator import __version__


def main() -> None:
    """Runs the command line; `--version` and the commands inside pods run without importing the other commands.

    A driver starts for every attempt at a job, and importing all commands would take longer than many jobs.
    """
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"sparring {__version__}\n")
        return
    # OpenBLAS makes threads when NumPy is imported, which takes time, and how it adds depends on their number.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")  # it reads the metadata of all packages to find them
    gc.disable()  # imports leave no garbage, and looking for it takes a tenth of their time
    atexit.register(gc.freeze)  # no garbage is looked for at the end, where a short command spent a quarter of its time
    try:
        if sys.argv[1:2] == ["pod"]:
            from orchestrator.cli.pod import main as command  # noqa: PLC0415  see above
        else:
            from orchestrator.cli.commands import main as command  # noqa: PLC0415  see above
        command()
    except KeyboardInterrupt:  # during the imports, here and in `command`; a running command handles it itself
        sys.exit(130)


__all__ = ["main"]

if __name__ == "__main__":
    main()
