"""What an image says of itself and holds, read without starting it: the same verdict for an engine and a registry."""
