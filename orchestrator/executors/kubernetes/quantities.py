"""Amounts as Kubernetes writes them: `500m`, `1Gi`, `1e3` (Resource Management for Pods and Containers, "Quantity")."""

import re
from fractions import Fraction

_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip
_NUMBER = r"([+-]?[0-9]{1,30}(?:\.[0-9]{0,20})?|[+-]?\.[0-9]{1,20})"
_QUANTITY = re.compile(_NUMBER + r"(?:[eE]([+-]?[0-9]{1,3})|([numk]|[KMGTPE]i|[MGTPE])?)")


def parse_quantity(text: str | float) -> Fraction | None:
    """Returns the value of a quantity, or None if the text is not a quantity."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        return None
    return Fraction(found[1]) * Fraction(10) ** int(found[2] or 0) * _SUFFIXES[found[3] or ""]
