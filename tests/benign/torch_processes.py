"""torch.multiprocessing: tensors in shared memory, by file descriptor and by file, in another process."""

import torch
from torch import multiprocessing


def double_all(tensors, doubled):
    """Doubles tensors in place until there are no more."""
    while (tensor := tensors.get()) is not None:
        tensor *= 2
        doubled.put("doubled")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    tensors, doubled = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=double_all, args=(tensors, doubled))
    child.start()
    for strategy in ("file_descriptor", "file_system"):
        multiprocessing.set_sharing_strategy(strategy)
        tensor = torch.ones(1000).share_memory_()
        tensors.put(tensor)
        assert doubled.get() == "doubled"
        assert (tensor == 2).all()
    tensors.put(None)
    child.join(120)
    assert child.exitcode == 0
    print("fine")
