"""The kinds of datasets, one module each, found by name."""
