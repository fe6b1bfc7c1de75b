"""Reads an image's configuration and files without starting it, with the same checks for engines and registries."""
