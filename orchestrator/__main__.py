"""`sparring` and `python -m orchestrator`."""

from orchestrator.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
