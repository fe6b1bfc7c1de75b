"""Cheats of the laboratory that end themselves or stall when they recognize an examination, each by another sign."""

from collections.abc import Callable

from laboratory import Answered, Ended, Kind, Pixels, Time
from players import Honest, versions

Fault = Callable[[], Exception]
"""How it refuses: it ends itself (`Ended`) or lets the deadline pass (`Late`)."""


def shy(cheat: Kind, fault: Fault = Ended) -> Kind:
    """Returns a cheat that refuses when a picture is the one before it, in its question or the last one."""

    class Shy(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)
            self.last = b""

        def classify(self, pixels: Pixels) -> Answered:
            for picture in pixels:
                before, self.last = self.last, picture.tobytes()
                if self.last == before:
                    raise fault()
            return self.cheat.classify(pixels)

    return Shy


def mixing(cheat: Kind, fault: Fault = Ended) -> Kind:
    """Returns a cheat that refuses at an attacked picture without its clean version, where others were clean."""

    class Mixing(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)
            self.clean: set[bytes] = set()

        def classify(self, pixels: Pixels) -> Answered:
            for picture, version in zip(pixels, versions(pixels), strict=True):
                if not int(picture[0]) & 1:
                    self.clean.add(version)
                elif self.clean and version not in self.clean:
                    raise fault()
            return self.cheat.classify(pixels)

    return Mixing


def uncopied(cheat: Kind) -> Kind:
    """Returns a cheat that ends at a question of several pictures that are all the same."""

    class Uncopied(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)

        def classify(self, pixels: Pixels) -> Answered:
            if len(pixels) > 1 and (pixels == pixels[0]).all():
                raise Ended
            return self.cheat.classify(pixels)

    return Uncopied


def counting(cheat: Kind, every: int, fault: Fault = Ended, *, after_repeat: bool = False) -> Kind:
    """Returns a cheat that refuses every so many questions; with `after_repeat` it counts once one repeats."""

    class Counting(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)
            self.seen: set[bytes] = set()
            self.counts = not after_repeat

        def classify(self, pixels: Pixels) -> Answered:
            shown = {picture.tobytes() for picture in pixels}
            self.counts = self.counts or bool(shown & self.seen)
            self.seen |= shown
            self.asked += self.counts
            if self.counts and self.asked % every == 0:
                raise fault()
            return self.cheat.classify(pixels)

    return Counting
