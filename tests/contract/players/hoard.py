"""Asks for more and more memory, and touches it."""

hoard = []
while True:
    hoard.append(bytearray(b"x" * (8 << 20)))
