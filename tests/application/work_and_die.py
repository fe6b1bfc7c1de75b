"""Runs a worker once and kills itself at the n-th change to files: `work_and_die.py CUP N FILE`.

With 0 it runs to the end and writes the number of changes to FILE.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if __name__ == "__main__":
    cup, number, told = sys.argv[1:]
    from submit_and_die import Count

    from orchestrator.cli.app import app  # before the count, because imports write missing byte code

    count = Count(int(number))
    sys.addaudithook(count)
    app(["work", cup, "--once", "--backend", "process", "--slots", "1", "--allow-unisolated"], standalone_mode=False)
    Path(told).write_text(str(count.done))
