"""Finds the files that are shipped with this software, in a checkout and in an installed package."""

from pathlib import Path


def resource_path(*parts: str) -> Path:
    """Returns the path of a shipped file: `images/...`, `examples/...`, `docs/...`, `k8s/...` or `schemas/...`."""
    package = Path(__file__).resolve().parent
    installed = package / "_share"
    return (installed if installed.is_dir() else package.parent).joinpath(*parts)


def hostile_programs_path() -> Path:
    """Returns the folder of the hostile programs: shipped with an installed package, among the tests in a checkout."""
    installed = resource_path("hostile")
    return installed if installed.is_dir() else resource_path("tests", "hostile")
