"""The network that train.py fits and player.py plays with."""

from torch import nn


def network(channels, classes):
    """Returns two convolutions and a linear layer for float pictures [n, channels, height, width] of any size."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, classes)),
    )
