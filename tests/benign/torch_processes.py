"""torch.multiprocessing: tensors in shared memory, by file descriptor and by file, each in another process."""

import torch
from torch import multiprocessing


def double(tensor, event):
    """Doubles a tensor in place."""
    tensor *= 2
    event.set()


if __name__ == "__main__":
    for strategy in ("file_descriptor", "file_system"):
        multiprocessing.set_sharing_strategy(strategy)
        context = multiprocessing.get_context("spawn")
        tensor, event = torch.ones(1000).share_memory_(), context.Event()
        child = context.Process(target=double, args=(tensor, event))
        child.start()
        child.join(120)
        assert child.exitcode == 0
        assert event.is_set()
        assert (tensor == 2).all()
    print("fine")
