"""Sparring: attack-versus-defence competitions for image classifiers, played between isolated containers."""

__version__ = "0.2.0"
"""The version of this software, written here alone: the package's metadata is built from it (pyproject.toml). So it is
that of the code that runs also where the code was copied and not installed, as in the runner's image."""
