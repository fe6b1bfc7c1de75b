"""torch: training with momentum, a DataLoader with three worker processes, saving and loading, threads."""

import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    """Trains a small network on points that a line divides."""
    torch.manual_seed(0)
    x = torch.randn(512, 8)
    y = (x.sum(1) > 0).long()
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batches = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, num_workers=3, persistent_workers=True)
    for _ in range(5):
        for bx, by in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(bx), by).backward()
            optimizer.step()
    assert (net(x).argmax(1) == y).float().mean() > 0.9
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    net.load_state_dict(torch.load(file, weights_only=True))
    torch.set_num_threads(4)
    assert torch.randn(400, 400).matmul(torch.randn(400, 400)).shape == (400, 400)
    image = torch.randn(8, 3, 32, 32)
    assert nn.Conv2d(3, 16, 3, padding=1)(image).shape == (8, 16, 32, 32)


if __name__ == "__main__":
    main()
    print("fine")
