"""Unique identifiers and generated names, repeatable by their seed."""

from random import Random
from uuid import UUID

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters that `generateName` uses: k8s.io/apimachinery, `pkg/util/rand`."""
LONGEST = 63


class Names:
    """Makes names and identifiers from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uid(self) -> str:
        """Returns a new `metadata.uid`."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self, length: int = 5) -> str:
        """Returns random letters."""
        return "".join(self._random.choice(ALPHABET) for _ in range(length))

    def generate(self, base: str) -> str:
        """Returns a name for a `generateName`: the base, cut so that the whole has 63 characters, and five letters."""
        return base[: LONGEST - 5] + self.suffix()
