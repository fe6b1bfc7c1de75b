"""40 of the 64 MiB of /tmp and 30 of the 64 MiB of shared memory, renaming, sparse files, permissions, locks."""

import fcntl
import mmap
import os
import shutil
import tempfile
from pathlib import Path

MIB = 1024 * 1024
with tempfile.TemporaryDirectory() as folder:
    big = Path(folder, "big")
    with big.open("wb") as file:
        for _ in range(20):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
        fcntl.lockf(file, fcntl.LOCK_EX)
    shutil.copy2(big, Path(folder, "copy"))
    Path(folder, "copy").rename(Path(folder, "moved"))
    assert Path(folder, "moved").read_bytes() == big.read_bytes()
    for n in range(2000):
        Path(folder, f"small-{n}").write_text(str(n))
    assert len(list(Path(folder).iterdir())) == 2002
    Path(folder, "link").symlink_to(big)
    Path(folder, "hard").hardlink_to(big)
    os.mkfifo(Path(folder, "fifo"))
    big.chmod(0o600)
    os.utime(big, (1, 1))
    os.truncate(big, 5)
    assert Path(folder, "link").stat().st_size == 5
with Path("/dev/shm/block").open("w+b") as file:
    file.truncate(30 * MIB)
    with mmap.mmap(file.fileno(), 30 * MIB) as block:
        block[:] = bytes(30 * MIB)
Path("/dev/shm/block").unlink()
descriptor = os.memfd_create("anonymous")
os.write(descriptor, b"x" * MIB)
assert os.fstat(descriptor).st_size == MIB
print("fine")
