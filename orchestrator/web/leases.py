"""Leases: for 20 minutes, a picture that needs more raters is shown to as many raters as are missing, and no more.

A lease is an entry in the cache that all processes share. If one is lost or expires, a rater may judge a picture in
vain: the contest itself refuses ratings that it does not need.
"""

import secrets
from collections.abc import Iterable

from django.core.cache import cache

from orchestrator.application.grading.picture_raters import AskedItem

LEASE_SECONDS = 20 * 60
_TOKEN_BYTES = 12


def take(rater: str, items: Iterable[AskedItem]) -> tuple[str, AskedItem] | None:
    """Returns the token and the item of a rater's lease. Leases one of `items` if the rater has no lease of them.

    Returns None if other raters have leases on all items.
    """
    every = {(each.picture, each.appeal): each for each in items}
    known = cache.get(_of_rater(rater))
    if known is not None and (known["picture"], known["appeal"]) in every:
        return known["token"], every[known["picture"], known["appeal"]]
    give_back(rater)
    for item in every.values():
        for place in range(item.missing):
            slot = f"lease-{item.picture}-{item.appeal}-{place}"
            if cache.add(slot, rater, LEASE_SECONDS):
                token = secrets.token_hex(_TOKEN_BYTES)
                lease = {"token": token, "picture": item.picture, "appeal": item.appeal, "slot": slot}
                cache.set(_of_rater(rater), lease, LEASE_SECONDS)
                return token, item
    return None


def picture_of(rater: str, token: str) -> str | None:
    """Returns the picture of a rater's lease; None if the lease has another token or has ended."""
    known = cache.get(_of_rater(rater))
    return known["picture"] if known is not None and known["token"] == token else None


def give_back(rater: str) -> None:
    """Ends a rater's lease, because the picture was judged or needs no more raters."""
    known = cache.get(_of_rater(rater))
    if known is not None:
        if cache.get(known["slot"]) == rater:
            cache.delete(known["slot"])
        cache.delete(_of_rater(rater))


def _of_rater(rater: str) -> str:
    return f"lease-of-{rater}"
