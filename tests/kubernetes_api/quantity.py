"""Amounts of resources, as `resource.Quantity` writes them.

Resource Management for Pods and Containers, "Resource units in Kubernetes".
"""

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII)
_SUFFIX = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


def amount(text: str | float) -> Fraction:
    """Returns the number that a quantity stands for.

    Raises:
        ValueError: it is none.
    """
    found = _FORM.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity such as 500m, 2 or 16Gi")
    return Fraction(found[1] + (found[2] or "")) * _SUFFIX.get(found[3] or "", 1)


def text(value: Fraction) -> str:
    """Returns a quantity in its shortest form: binary suffixes from 1Ki, thousandths where it is not whole."""
    if value.denominator != 1:
        return f"{-(-value.numerator * 1000 // value.denominator)}m"
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if value and value % _SUFFIX[suffix] == 0:
            return f"{value // _SUFFIX[suffix]}{suffix}"
    return str(value)
