"""Names of files and folders that are never part of a submission."""

from pathlib import PurePosixPath

EXCLUDED_NAMES = frozenset(
    {
        *("__pycache__", ".git", ".hg", ".svn", ".venv", ".DS_Store", "__MACOSX"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".idea", ".vscode"),
        *(".ssh", ".aws", ".docker", ".gnupg", ".kube", ".netrc", ".pypirc", ".git-credentials", ".env"),
        *("id_rsa", "id_ecdsa", "id_ed25519"),
    }
)
"""Names that are never part of a submission: files that tools leave behind, and places of people's credentials."""
PACKAGE_SUFFIX = ".sparring.tar"
"""The end of a package's name: a package is never packed into another one."""


def is_excluded(name: str) -> bool:
    """Returns whether a file or folder of this name is never part of a submission."""
    return name in EXCLUDED_NAMES or name.endswith(PACKAGE_SUFFIX)


def excluded_part(path: PurePosixPath) -> PurePosixPath | None:
    """Returns the excluded path or folder above a path, None if the path may be part of a submission."""
    depth = next((depth for depth, part in enumerate(path.parts, start=1) if is_excluded(part)), 0)
    return PurePosixPath(*path.parts[:depth]) if depth else None
