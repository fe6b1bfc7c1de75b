"""`sparring` and `python -m orchestrator`."""

import gc
import sys


def main() -> None:
    """Runs the command line; of the commands inside pods, nothing but themselves is imported.

    A driver is started for every attempt at a job, and importing all commands takes it longer than many jobs do.
    """
    gc.disable()  # nothing that imports make is garbage, and looking for it takes a tenth of their time
    if sys.argv[1:2] == ["pod"]:
        from orchestrator.cli.pod import main as command  # noqa: PLC0415  see above
    else:
        from orchestrator.cli.app import main as command  # noqa: PLC0415  see above
    command()


__all__ = ["main"]

if __name__ == "__main__":
    main()
