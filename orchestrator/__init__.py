"""Sparring: attack-versus-defence competitions for image classifiers, played between isolated containers."""

__version__ = "0.1.0"
