"""Images on a Docker engine: built, loaded, pushed, copied."""
