"""Contest formats: who meets whom, and what it is worth. One file each, found by name."""
