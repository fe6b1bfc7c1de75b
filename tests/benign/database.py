"""sqlite3 with its locks: in memory and in a file, two connections, a writer that waits for another process."""

import multiprocessing
import sqlite3
import tempfile
from pathlib import Path


def write(path, number):
    """Writes one row, waiting for others.

    Who finds the journal of another process asks whose lock there is (F_GETLK), which no sandbox may, since the answer
    would carry words between sandboxes. A journal in memory is found by nobody.
    """
    with sqlite3.connect(path, timeout=30) as other:
        other.execute("pragma journal_mode = memory")
        other.execute("insert into t values (?)", (number,))
    other.close()


if __name__ == "__main__":
    memory = sqlite3.connect(":memory:")
    assert memory.execute("select 6 * 7").fetchone() == (42,)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "d.sqlite"))
        one = sqlite3.connect(path, timeout=30)
        one.execute("create table t (x)")
        one.commit()
        one.execute("begin immediate")
        rival = sqlite3.connect(path, timeout=0)
        try:
            rival.execute("begin immediate")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error)
        else:
            raise AssertionError("two writers at once")
        one.rollback()
        # SQLite forbids to carry an open connection into a child: its locks are the process's.
        # https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_across_a_fork_
        rival.close()
        one.close()
        children = [multiprocessing.Process(target=write, args=(path, n)) for n in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0] * 4
        last = sqlite3.connect(path)
        assert last.execute("select count(*) from t").fetchone() == (4,)
        last.close()
    print("fine")
