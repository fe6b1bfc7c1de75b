"""Builds the attacks that the rules describe, as `OrganizerAttack` objects."""

from collections.abc import Callable, Iterator, Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from orchestrator.domain.ids import canonical_json, digest
from orchestrator.domain.organizer_attacks import AttackedPicture, OrganizerAttack, QueriedDefence
from orchestrator.domain.samples import Samples
from orchestrator.domain.tasks import Budget
from orchestrator.formats.warmup.attacks.base import Attack, Floats, Scores, play_attacks, to_floats, to_pixels
from orchestrator.formats.warmup.attacks.boundary import Boundary
from orchestrator.formats.warmup.attacks.corruptions import CORRUPTIONS, CommonCorruptions
from orchestrator.formats.warmup.attacks.spatial import AfterMovement, Grid, InkCheckedGrid, Reading, SpatialGrid
from orchestrator.formats.warmup.attacks.spsa import Spsa
from orchestrator.formats.warmup.attacks.transforms import PillowTransform, TensorflowTransform, Transform
from orchestrator.formats.warmup.rules import (
    BoundaryRules,
    SpatialRules,
    SpsaRules,
    StartRules,
    TransformRules,
    WarmupRules,
)

ALGORITHMS = 1
"""Increase it with every change of an attack's code that changes its pictures: then the attacks are played again."""


_VALUES_IN_FLIGHT = 2**24
"""How many values of pictures may be in questions at the same time: 64 MiB, with copies several times as much."""
_USUAL_QUESTION = 65
"""The largest number of pictures in one question of an attack."""


class GeneratorAttack(OrganizerAttack):
    """An attack of `formats.warmup.attacks`, with its settings.

    Args:
        name: its name in the roster.
        settings: everything that its pictures depend on, as a JSON object.
        pictures: the largest number of a task's pictures that it attacks.
        queries_per_picture: the largest number of queries that it needs for a picture.
        make: returns the attack on a task's pictures.
    """

    def __init__(
        self,
        name: str,
        settings: dict[str, object],
        pictures: int,
        queries_per_picture: int,
        make: Callable[[Samples], Attack],
    ) -> None:
        self.name, self._settings, self._make = name, settings, make
        self.wanted_pictures = pictures
        self.queries_per_picture = queries_per_picture

    @property
    def digest(self) -> str:
        """See `OrganizerAttack.digest`."""
        return digest(canonical_json({"attack": self.name, "algorithms": ALGORITHMS, "settings": self._settings}))

    def pictures(self, count: int) -> int:
        """See `OrganizerAttack.pictures`."""
        return min(self.wanted_pictures, count)

    def play(
        self,
        samples: Samples,
        pictures: Sequence[int],
        generators: Sequence[np.random.Generator],
        defence: QueriedDefence,
        budget: Budget | None,
    ) -> Iterator[AttackedPicture]:
        """See `OrganizerAttack.play`. It attacks as many pictures at the same time as fit into memory."""
        del budget  # the rules have the strength of each attack
        attack, numbers = self._make(samples), np.asarray(pictures, np.int32)
        steps = [
            attack.attack(to_floats(samples.pixels[picture]), int(samples.labels[picture]), generator)
            for picture, generator in zip(pictures, generators, strict=True)
        ]

        def scores(asked: Floats, attacks: NDArray[np.int64]) -> Scores:
            return defence.ask(to_pixels(asked), numbers[attacks]).scores.astype(np.float64)

        at_a_time = max(1, _VALUES_IN_FLIGHT // (_USUAL_QUESTION * samples.pixels[0].size))
        for finished in play_attacks(steps, scores, at_a_time):
            yield AttackedPicture(
                picture=pictures[finished.number],
                pixels=to_pixels(finished.result.picture),
                queries=finished.queries,
                give_up_reason=finished.result.give_up_reason,
            )


def organizer_attacks(rules: WarmupRules) -> tuple[GeneratorAttack, ...]:
    """Returns the attacks that take part, in the order of the leaderboard's columns."""
    found = []
    if rules.spatial is not None:
        found.append(_spatial(rules.spatial, rules.transform))
    ink = rules.spatial is not None and rules.spatial.ink_check != "none"
    if rules.spsa is not None:
        found.append(_spsa(rules.spsa, rules.transform, check_ink=ink))
    if rules.boundary is not None:
        found.append(_boundary(rules.boundary, rules.transform, check_ink=ink))
    if rules.corruptions is not None:
        settings = rules.corruptions.model_dump(mode="json")
        found.append(
            GeneratorAttack(
                "corruptions", settings, rules.corruptions.pictures, len(CORRUPTIONS), lambda _: CommonCorruptions()
            )
        )
    return tuple(found)


def _spatial(rules: SpatialRules, transform: TransformRules) -> GeneratorAttack:
    grid = Grid(rules.limits.limits(), rules.dx_steps, rules.dy_steps, rules.angle_steps, rules.axes)

    def make(samples: Samples) -> Attack:
        method = _transform(transform, samples)
        if rules.ink_check == "none":
            return SpatialGrid(grid, method)
        return InkCheckedGrid(grid, method, Reading(rules.ink_check))

    queries = rules.dx_steps * rules.dy_steps * rules.angle_steps
    return GeneratorAttack("spatial", _settings(rules, transform), rules.pictures, queries, make)


def _spsa(rules: SpsaRules, transform: TransformRules, *, check_ink: bool) -> GeneratorAttack:
    # Pictures are judged in bytes: a change of 76.5 steps would be rounded to 77 at every second value.
    rules = rules.model_copy(update={"epsilon": float(floor(rules.epsilon))})
    attack = Spsa(
        epsilon=rules.epsilon / 255,
        steps=rules.steps,
        samples=rules.samples,
        delta=rules.delta,
        learning_rate=rules.learning_rate,
        stop_margin=rules.stop_margin,
        stop=rules.stop,
    )
    return GeneratorAttack(
        "spsa",
        _settings(rules, transform, check_ink=check_ink),
        rules.pictures,
        rules.steps * (rules.samples + 1),
        lambda samples: _moved(attack, rules.start, transform, samples, check_ink=check_ink),
    )


def _boundary(rules: BoundaryRules, transform: TransformRules, *, check_ink: bool) -> GeneratorAttack:
    def make(samples: Samples) -> Attack:
        pictures = to_floats(samples.pixels)
        attack = Boundary(
            distance=rules.distance,
            starts=(pictures[samples.labels == 0], pictures[samples.labels == 1]),
            iterations=rules.iterations,
            directions=rules.directions,
            directions_per_question=rules.directions_per_question,
            in_bytes=True,
        )
        return _moved(attack, rules.start, transform, samples, check_ink=check_ink)

    queries = 2 + rules.iterations * 2 * rules.directions  # two a direction if its point on the sphere is asked about
    settings = _settings(rules, transform, check_ink=check_ink, in_bytes=True)
    return GeneratorAttack("boundary", settings, rules.pictures, queries, make)


def _moved(
    attack: Attack, start: StartRules | None, transform: TransformRules, samples: Samples, *, check_ink: bool
) -> Attack:
    """Returns the attack, preceded by a random movement of the picture if the rules say so."""
    if start is None:
        return attack
    return AfterMovement(attack, start.limits(), _transform(start.transform or transform, samples), check_ink=check_ink)


def _transform(rules: TransformRules, samples: Samples) -> Transform:
    if rules.kind == "pillow":
        return PillowTransform(rules.border)
    # It takes twice the visible border of a side: half of it is cut off again.
    return TensorflowTransform(round(2 * rules.border * samples.shape[1]))


def _settings(rules: BaseModel, transform: TransformRules, **more: object) -> dict[str, object]:
    return {**rules.model_dump(mode="json"), "transform": transform.model_dump(mode="json"), **more}
