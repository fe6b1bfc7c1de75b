"""`sparring` and `python -m orchestrator`."""

import gc
import sys

from orchestrator import __version__


def main() -> None:
    """Runs the command line; the version, and each command inside pods, is reached without importing the others.

    A driver is started for every attempt at a job, and importing all commands takes it longer than many jobs do.
    """
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"sparring {__version__}\n")
        return
    gc.disable()  # nothing that imports make is garbage, and looking for it takes a tenth of their time
    try:
        if sys.argv[1:2] == ["pod"]:
            from orchestrator.cli.pod import main as command  # noqa: PLC0415  see above
        else:
            from orchestrator.cli.commands import main as command  # noqa: PLC0415  see above
    except KeyboardInterrupt:  # a command itself says so by its own means
        sys.exit(130)
    command()


__all__ = ["main"]

if __name__ == "__main__":
    main()
