"""The keys by which names of people and teams are compared, so that another spelling is not another name (A1).

Only spellings are folded, by Unicode's NFKC and case folding (UAX 15, and section 3.13 of the standard). Two addresses
of one person stay different: each mail server decides what `+tag` and dots in the local part mean.
"""

import re
import unicodedata
from itertools import chain

_INVISIBLE = frozenset(map(chr, chain((0x034F, 0x115F, 0x1160, 0x3164), range(0x180B, 0x1810), range(0xFE00, 0xFE10))))
"""Characters without a glyph that are not of the category Cf (Unicode's property Default_Ignorable_Code_Point)."""
_LABEL_SEPARATORS = re.compile("[.\u3002\uff0e\uff61]")
"""What separates the labels of a domain (RFC 3490, section 3.1)."""
_ADDRESS = re.compile(r"[^\s@\"<>()\[\]\\,;:]+@[^\s@\"<>()\[\]\\,;:]+")


def fold_name(text: str) -> str:
    """Returns a name in the one form in which names are compared: no case, no invisible character, single spaces."""
    before = None
    while before != text:
        before = text
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(each for each in text if unicodedata.category(each) != "Cf" and each not in _INVISIBLE)
        text = " ".join(text.split())
    return text


def person_key(name: str) -> str:
    """Returns the key of a person: the folded name, or address with the domain in Unicode, without the root's dot."""
    local, at, domain = fold_name(name).rpartition("@")
    if not at:
        return domain
    labels = [_decode_label(label) for label in _LABEL_SEPARATORS.split(domain)]
    return f"{local}@{'.'.join(labels).rstrip('.')}"


def is_comparable(name: str) -> bool:
    """Returns whether a person's name can be compared: a name that is not empty, or a bare address.

    Quotes, comments, brackets and a second `@` are other spellings of an address (RFC 5322, section 3.4.1).
    """
    known = fold_name(name)
    return bool(known) and known.isprintable() and ("@" not in known or bool(_ADDRESS.fullmatch(known)))


def _decode_label(label: str) -> str:
    """Returns a label of a domain in Unicode; it may be encoded in ASCII (RFC 3492)."""
    if not label.startswith("xn--"):
        return label
    try:
        return fold_name(label.removeprefix("xn--").encode("ascii").decode("punycode")) or label
    except UnicodeError:
        return label
