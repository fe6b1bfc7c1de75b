"""Where players live. One file per backend, found by name; `base` says what a backend owes."""
