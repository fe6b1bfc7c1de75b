"""Asks for 1 GiB of memory, piece by piece, and touches it. Nobody who is limited to less comes to the end."""

hoard = [bytearray(b"x" * (8 << 20)) for _ in range(128)]
