"""Takes 384 MiB where 128 MiB are allowed."""

from _report import MIB, report

hoard = []
for taken in range(384):
    hoard.append(bytearray(b"x" * MIB))
    if taken % 32 == 0:
        report(False, f"{taken} MiB taken")
report(True, f"{len(hoard)} MiB taken")
