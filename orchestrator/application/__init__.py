"""The composition root: the only room that chooses implementations."""
