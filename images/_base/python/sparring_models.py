"""The organizers' networks: DigitsCNN for 1 x 8 x 8 pictures, Digits28CNN for 1 x 28 x 28, CifarNet for 3 x 32 x 32.

All take float32 [n, channels, height, width] in [0, 1] and return logits [n, classes]. Which one a weights file
belongs to follows from the task's shape, so one baseline folder serves several tasks with other weights.
"""

import os
from pathlib import Path
from typing import Protocol

# cuBLAS reads this when CUDA starts; without it deterministic algorithms refuse to run on a GPU.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional


class TaskLike(Protocol):
    """The attributes of a task that this module needs; sparring_player.Task has them."""

    shape: tuple[int, ...]
    classes: tuple[str, ...]
    threads: int


class DigitsCNN(nn.Module):
    """Two convolutions, one pooling, two linear layers: 38,282 parameters for ten classes; no normalisation."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(512, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Returns logits [n, classes]."""
        x = functional.relu(self.conv1(pictures))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(x.flatten(1))))


class Digits28CNN(nn.Module):
    """Two convolutions with a stride of 2, two linear layers: 26,414 parameters for two classes; no normalisation."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc1 = nn.Linear(784, 32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Returns logits [n, classes]."""
        x = functional.relu(self.conv1(pictures))
        x = functional.relu(self.conv2(x))
        return self.fc2(functional.relu(self.fc1(x.flatten(1))))


class CifarNet(nn.Module):
    """A small residual network: 191,514 trained parameters for ten classes; normalisation is inside."""

    mean: Tensor
    std: Tensor

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1))
        self.conv1, self.bn1 = _convolution(3, 16)
        self.conv2, self.bn2 = _convolution(16, 32, stride=2)
        self.res1a, self.bn1a = _convolution(32, 32)
        self.res1b, self.bn1b = _convolution(32, 32)
        self.conv3, self.bn3 = _convolution(32, 64, stride=2)
        self.res2a, self.bn2a = _convolution(64, 64)
        self.res2b, self.bn2b = _convolution(64, 64)
        self.conv4, self.bn4 = _convolution(64, 128, stride=2)
        self.fc = nn.Linear(128, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        """Returns logits [n, classes]."""
        relu = functional.relu
        x = (pictures - self.mean) / self.std
        x = relu(self.bn1(self.conv1(x)))
        x = relu(self.bn2(self.conv2(x)))
        x = relu(x + self.bn1b(self.res1b(relu(self.bn1a(self.res1a(x))))))
        x = relu(self.bn3(self.conv3(x)))
        x = relu(x + self.bn2b(self.res2b(relu(self.bn2a(self.res2a(x))))))
        x = relu(self.bn4(self.conv4(x)))
        return self.fc(x.mean((2, 3)))


def _convolution(inputs: int, outputs: int, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs)


ARCHITECTURES: dict[str, tuple[tuple[int, int, int], type[DigitsCNN | Digits28CNN | CifarNet]]] = {
    "digits_cnn": ((1, 8, 8), DigitsCNN),
    "digits28_cnn": ((1, 28, 28), Digits28CNN),
    "cifar_net": ((3, 32, 32), CifarNet),
}
"""By name: the shape of one picture, and the network for it."""


def load_network(path: str | Path, task: TaskLike) -> nn.Module:
    """Returns the network for the task's pictures with the weights in `path`, frozen, on the GPU if there is one.

    Raises:
        ValueError: no network takes pictures of this shape.
        RuntimeError: the weights belong to another network.
    """
    be_deterministic(task.threads)
    for shape, network in ARCHITECTURES.values():
        if shape == tuple(task.shape):
            made = network(len(task.classes))
            made.load_state_dict(load_file(path))
            return made.requires_grad_(requires_grad=False).eval().to(device())
    known = [shape for shape, _ in ARCHITECTURES.values()]
    raise ValueError(f"no network takes pictures of shape {tuple(task.shape)}; there are networks for {known}")


def be_deterministic(threads: int) -> None:
    """Makes the same input give the same bits: fixed algorithms, full 32-bit precision, `threads` threads."""
    torch.set_num_threads(threads)
    # The same switch as use_deterministic_algorithms, which imports PyTorch's compiler: that takes seconds, 70 MiB and
    # a folder to write to.
    torch.set_deterministic_debug_mode("error")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False


def device() -> torch.device:
    """Returns the GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pictures(pixels: NDArray[np.uint8]) -> Tensor:
    """Returns uint8 pixels as float32 in [0, 1] on the device."""
    return torch.from_numpy(pixels).to(device()).float() / 255


def logits(network: nn.Module, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns the network's logits [n, classes] for uint8 pixels [n, c, h, w]."""
    with torch.no_grad():
        return network(pictures(pixels)).cpu().numpy()


def slope(network: nn.Module, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns `loss_gradient` at uint8 pixels [n, c, h, w], float32 of the same shape."""
    return loss_gradient(network, pictures(pixels), torch.from_numpy(labels).to(device())).cpu().numpy()


def loss_gradient(network: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """Returns the gradient of each picture's cross-entropy with respect to the picture, float32 [n, c, h, w]."""
    x = x.detach().requires_grad_()
    # The sum keeps every picture's gradient its own; a mean over the batch would shrink it, down to zero at worst.
    loss = functional.cross_entropy(network(x), target, reduction="sum")
    return torch.autograd.grad(loss, x)[0]
