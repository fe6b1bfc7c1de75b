"""Orders a rater's items: in random order, each kind spread evenly, versions of one picture far apart."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def spread(groups: Sequence[Sequence[Item]], rng: np.random.Generator) -> list[Item]:
    """Returns the items of all groups in one order in which each group is spread evenly over the whole.

    Item number i of the n of a group gets a random place in the i-th of n equal intervals. So tiredness of raters
    affects every submission equally.
    """
    placed = []
    for group in groups:
        mixed = [group[place] for place in rng.permutation(len(group))]
        draws = rng.random(len(mixed))
        placed += [
            ((place + draw) / len(mixed), item) for place, (item, draw) in enumerate(zip(mixed, draws, strict=True))
        ]
    return [item for _, item in sorted(placed, key=lambda pair: pair[0])]


def shortest_length(pictures: Sequence[Hashable], distance: int) -> int:
    """Returns the number of items needed for an order with `distance` others between two items of one picture.

    `pictures` has the picture of each item. Two items of the most frequent picture are `distance` + 1 places apart, and
    each picture that is as frequent needs one more place at the end.
    """
    counts = Counter(pictures)
    most = max(counts.values(), default=1)
    return (most - 1) * (distance + 1) + sum(count == most for count in counts.values())


def separate(
    items: Sequence[Item],
    picture: Callable[[Item], Hashable],
    distance: int,
    before: Sequence[Hashable],
    rng: np.random.Generator,
) -> list[Item] | None:
    """Returns the items in nearly the same order, with at least `distance` others between two of one picture.

    The next item is always the first that is allowed. Items that are left at the end are inserted at random places with
    enough distance. If there is no such place, it starts again with the most frequent pictures first, which finds an
    order whenever there is one but is less random.

    Args:
        items: the items, in the preferred order.
        picture: returns the picture that an item shows.
        distance: the number of items between two of one picture, at least 1.
        before: the pictures shown before these items, in order.
        rng: decides where the items that are left go.

    Returns:
        Every item once; None if there is no such order.
    """
    order, left = _in_turn(items, picture, distance, before)
    pictures = [picture(item) for item in order]
    for item in left:
        places = _free_places(picture(item), pictures, distance, before)
        if not places:
            frequent = Counter(picture(item) for item in items)
            return _most_frequent_first(items, picture, distance, before, frequent)
        place = places[rng.integers(len(places))]
        order.insert(place, item)
        pictures.insert(place, picture(item))
    return order


def _in_turn(
    items: Sequence[Item], picture: Callable[[Item], Hashable], distance: int, before: Sequence[Hashable]
) -> tuple[list[Item], list[Item]]:
    """Returns the items in order, as long as one is allowed, and the items that are left."""
    waiting, order = list(items), list[Item]()
    recent = list(before)[-distance:]
    while True:
        allowed = next((place for place, item in enumerate(waiting) if picture(item) not in recent), None)
        if allowed is None:
            return order, waiting
        order.append(waiting.pop(allowed))
        recent = [*recent, picture(order[-1])][-distance:]


def _free_places(
    wanted: Hashable, pictures: Sequence[Hashable], distance: int, before: Sequence[Hashable]
) -> list[int]:
    """Returns the places where a picture may be inserted. Inserting it only moves others further apart."""
    shown = [*list(before)[-distance:], *pictures]
    first = len(shown) - len(pictures)
    taken = [place for place, each in enumerate(shown) if each == wanted]
    return [
        place - first
        for place in range(first, len(shown) + 1)
        if all(each < place - distance or each >= place + distance for each in taken)
    ]


def _most_frequent_first(
    items: Sequence[Item],
    picture: Callable[[Item], Hashable],
    distance: int,
    before: Sequence[Hashable],
    left: Counter[Hashable],
) -> list[Item] | None:
    """Returns an order in which the allowed picture with most items left always comes next; None if it fails."""
    waiting, order = list(items), list[Item]()
    recent = list(before)[-distance:]
    while waiting:
        allowed = [place for place, item in enumerate(waiting) if picture(item) not in recent]
        if not allowed:
            return None
        place = max(allowed, key=lambda place: left[picture(waiting[place])])
        order.append(waiting.pop(place))
        left[picture(order[-1])] -= 1
        recent = [*recent, picture(order[-1])][-distance:]
    return order
