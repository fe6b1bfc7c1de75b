"""subprocess: a shell, pipes, a time-out, a signal to a child, its own session, inherited files."""

import os
import signal
import subprocess
import sys

assert subprocess.run(["sh", "-c", "echo one | tr o O"], capture_output=True, text=True, check=True).stdout == "One\n"
assert subprocess.check_output([sys.executable, "-c", "print(6 * 7)"]).strip() == b"42"
try:
    subprocess.run(["sleep", "30"], timeout=0.2, check=False)
except subprocess.TimeoutExpired:
    pass
else:
    raise AssertionError("no time-out")
with subprocess.Popen(["sleep", "30"], start_new_session=True) as child:
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM
read, write = os.pipe()
with subprocess.Popen([sys.executable, "-c", f"import os; os.write({write}, b'up')"], pass_fds=[write]):
    os.close(write)
    assert os.read(read, 2) == b"up"
print("fine")
