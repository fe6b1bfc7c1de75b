"""Where pictures come from. One file per kind, found by name."""
