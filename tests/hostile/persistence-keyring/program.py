"""The first puts its token in the kernel's keyring of its user; the second, the same user's, looks for it."""

from _report import ROLE, TOKEN, name, report, syscall

ADD_KEY, REQUEST_KEY, KEYCTL = 248, 249, 250
USER_KEYRING = -4
UNLINK, SEARCH = 9, 10
word = f"hostile:{TOKEN}".encode()
try:
    if ROLE == "first":
        syscall(ADD_KEY, b"user", word, TOKEN.encode(), len(TOKEN), USER_KEYRING)
        report(False, "first left a key")
    else:
        key = syscall(KEYCTL, SEARCH, USER_KEYRING, b"user", word, 0)
        report(True, "second found the key")
        syscall(KEYCTL, UNLINK, key, USER_KEYRING)
        report(True, "second found the key, and removed it")
except OSError as error:
    report("key" in globals(), f"{ROLE}: {name(error)}")
