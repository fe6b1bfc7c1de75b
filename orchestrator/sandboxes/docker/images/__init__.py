"""Builds, loads, pushes and copies images on a Docker engine."""
