"""The backends that run players. Each is a package that is found by its name; `base` defines the interface."""
