"""The version of ledgers, bundles and receipts, and the message about any other version."""

from typing import Final

from orchestrator.domain.text import printable

FORMAT_VERSION: Final = 2
"""The version of ledgers, bundles and receipts, which change together. No other version can be read."""


def unreadable_version(what: str, version: object) -> str:
    """Returns what is wrong with a ledger, a bundle or a receipt of another version, and what to do."""
    if version == 1:
        made_by = "made by version 0.1 of this software, which this version cannot read"
        return f"is a {what} of version 1, {made_by}: play again with this version, or keep version 0.1 to look at it"
    known = f"this software reads version {FORMAT_VERSION} and no other"
    return f"is a {what} of version {printable(str(version), 20)}; {known}: read it with the version that made it"
