"""Sparring: attack-versus-defence competitions for image classifiers, played between isolated containers."""

__version__ = "0.2.0"
"""The version of this software. It is defined only here, and pyproject.toml builds the package's metadata from it, so
that it is also right where the code was copied and not installed, as in the runner's image."""
