"""torch.multiprocessing: tensors in shared memory, by file descriptor and by file, in four processes."""

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
        tensors = [torch.ones(1000).share_memory_() for _ in range(2)]
        events = [context.Event() for _ in tensors]
        children = [context.Process(target=double, args=given) for given in zip(tensors, events, strict=True)]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
            assert child.exitcode == 0
        assert all(event.is_set() for event in events)
        assert all((tensor == 2).all() for tensor in tensors)
    print("fine")
