"""multiprocessing with fork and spawn: pools, queues, pipes, shared memory, managers, locks and semaphores."""

import multiprocessing
from multiprocessing import shared_memory


def square(number):
    """Returns its square."""
    return number * number


def answer(queue, pipe, lock, name):
    """Uses everything that it was given."""
    block = shared_memory.SharedMemory(name=name, track=False) if TRACKED else shared_memory.SharedMemory(name=name)
    with lock:
        block.buf[0] = 7
    block.close()
    queue.put("queue")
    pipe.send("pipe")


TRACKED = hasattr(shared_memory.SharedMemory, "_track")

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(4) as pool:
            assert pool.map(square, range(50)) == [n * n for n in range(50)]
        block = shared_memory.SharedMemory(create=True, size=4096)
        ours, theirs = context.Pipe()
        queue, lock = context.Queue(), context.Lock()  # kept: a lock that the parent forgets is gone for the child
        child = context.Process(target=answer, args=(queue, theirs, lock, block.name))
        child.start()
        assert queue.get(timeout=60) == "queue"
        assert ours.recv() == "pipe"
        child.join(60)
        assert child.exitcode == 0
        assert block.buf[0] == 7
        block.close()
        block.unlink()
        with context.Manager() as manager:
            shared = manager.dict()
            shared["key"] = "value"
            assert dict(shared) == {"key": "value"}
    print("fine")
