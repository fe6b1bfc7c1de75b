"""Three quarters of its memory, given back and taken again, on more processors than one."""

import numpy as np

for _ in range(2):
    block = np.ones(375_000_000, dtype="u1")
    assert block[::4096].sum() == len(block[::4096])
    del block
print("fine")
