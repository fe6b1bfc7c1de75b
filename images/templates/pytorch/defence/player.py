"""A defence in PyTorch: the network in network.py, with the weights that train.py makes."""

from sparring_player import Defence, serve  # first: from here on print() writes to your log

# isort: split
from pathlib import Path

import torch
from network import network
from safetensors.torch import load_file


class Mine(Defence):
    """The network's most likely class."""

    scores = True  # classify returns scores beside the labels

    def load(self, task):
        """Called once, before the first question: whatever takes long goes here."""
        torch.manual_seed(0)  # the same network in every sandbox, also where the weights do not fit
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network = network(task.shape[0], len(task.classes)).eval().to(self.device)
        try:
            self.network.load_state_dict(load_file(Path(__file__).with_name("weights.safetensors")))
        except RuntimeError as error:
            print(
                f"{error}\nweights.safetensors does not fit: this network knows nothing. Make it with train.py --data"
            )

    def classify(self, pixels):
        """Returns n labels, and scores [n, classes], for pixels, uint8 [n, channels, height, width]."""
        with torch.no_grad():
            scores = self.network(torch.from_numpy(pixels).to(self.device).float() / 255)  # <- CHANGE THIS
        return scores.argmax(1), scores


if __name__ == "__main__":
    serve(Mine())
