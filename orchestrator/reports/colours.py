"""The report's colours, computed so that every text on them is readable.

Colours are computed in OKLCH, where equal steps look equal (B. Ottosson, "A perceptual color space for image
processing", 2020), and written as sRGB hex. Tests require a WCAG 2.2 contrast of 4.5 : 1 for every pair.
"""

from dataclasses import dataclass
from math import cos, radians, sin
from typing import Final

STEPS: Final = 20
"""The scale has a colour for every 5 % of accuracy: `STEPS` + 1 of them."""

Colour = tuple[float, float, float]
"""Lightness 0..1, chroma, hue in degrees."""


@dataclass(frozen=True, slots=True)
class Swatch:
    """A background colour and the text colour that is readable on it."""

    background: str
    text: str


PALETTES: Final[dict[str, dict[str, str]]] = {
    "light": {
        "page": "#f6f7f7",
        "surface": "#ffffff",
        "sunk": "#eceeef",
        "ink": "#14181c",
        "muted": "#525b63",
        "rule": "#d5dadd",
        "attack": "#a5331a",
        "attack-back": "#fbf0ec",
        "defence": "#0f4f7d",
        "defence-back": "#ecf3f8",
        "warn": "#7a4b00",
        "warn-back": "#fdf3dc",
        "bad": "#9b1c2e",
        "bad-back": "#fdeaea",
    },
    "dark": {
        "page": "#101417",
        "surface": "#181d21",
        "sunk": "#22282d",
        "ink": "#e9ecee",
        "muted": "#a3adb5",
        "rule": "#323a40",
        "attack": "#f2906d",
        "attack-back": "#2b1f1b",
        "defence": "#82bdeb",
        "defence-back": "#18262f",
        "warn": "#f0c36a",
        "warn-back": "#2a2311",
        "bad": "#ff9a9f",
        "bad-back": "#331a1d",
    },
}
"""For each theme, the values of the style sheet's custom properties by name."""

_ENDS: Final[dict[str, tuple[Colour, Colour]]] = {
    "light": ((0.955, 0.030, 75), (0.395, 0.095, 250)),
    "dark": ((0.265, 0.022, 60), (0.800, 0.095, 235)),
}
"""The colours of accuracy 0 and 1. In both themes, higher accuracy stands out more from the page."""
_MIDDLE_HUE: Final = 185
_INKS: Final = ("#000000", "#ffffff")


def scale(theme: str) -> tuple[Swatch, ...]:
    """Returns the swatches for accuracy 0 to 1 in `STEPS` + 1 steps, lightness strictly monotone in accuracy."""
    low, high = _ENDS[theme]
    return tuple(_swatch(low, high, step / STEPS) for step in range(STEPS + 1))


def step(accuracy: float) -> int:
    """Returns the index into `scale` for an accuracy of 0 to 1."""
    return round(min(max(accuracy, 0.0), 1.0) * STEPS)


def contrast(one: str, other: str) -> float:
    """Returns the WCAG 2.2 contrast ratio of two hex colours, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _swatch(low: Colour, high: Colour, at: float) -> Swatch:
    lightness, chroma = (a + (b - a) * at for a, b in zip(low[:2], high[:2], strict=True))
    start, end, part = (low[2], _MIDDLE_HUE, 2 * at) if at <= 0.5 else (_MIDDLE_HUE, high[2], 2 * at - 1)  # noqa: PLR2004
    hue = start + (end - start) * part
    back = _hex(lightness, chroma, hue)
    return Swatch(back, max(_INKS, key=lambda ink: contrast(back, ink)))


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """Returns an OKLCH colour as sRGB hex, with out-of-gamut channels clipped."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _encoded(value)):02x}" for value in linear)


def _encoded(linear: float) -> float:
    linear = min(max(linear, 0.0), 1.0)
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * float(linear ** (1 / 2.4)) - 0.055  # noqa: PLR2004  sRGB


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)  # noqa: PLR2004
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
