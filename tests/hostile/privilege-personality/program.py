"""Sets personalities."""

from _report import attempt, report_all, syscall

PERSONALITY = 135
NOT_RANDOM, READ_IMPLIES_EXEC, FOUR_GIGABYTES = 0x0040000, 0x0400000, 0x8000000
report_all(
    attempt("not random", syscall, PERSONALITY, NOT_RANDOM),
    attempt("data is code", syscall, PERSONALITY, READ_IMPLIES_EXEC),
    attempt("three gigabytes", syscall, PERSONALITY, FOUR_GIGABYTES),
)
