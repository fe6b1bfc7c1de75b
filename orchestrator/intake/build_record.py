"""A record of which image was built here from which folder, since an image's own label or name proves nothing.

A label can hold anything, and a name can be moved to another image. So each of our builds records the id of the built
image with the digest of the folder's files, in a folder to which only the user who builds writes. An image's id is a
digest of its content, so a record is valid on every engine that has the image.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from orchestrator.domain.ids import canonical_json
from orchestrator.files import write_whole


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """A folder of records, one file for each source digest and flavour, with the latest build of it."""

    folder: Path

    @classmethod
    def of_user(cls) -> "BuildRecord":
        """Returns the record of this user, in XDG_STATE_HOME, by default ~/.local/state."""
        named = os.environ.get("XDG_STATE_HOME", "")
        state = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
        return cls(state / "sparring" / "built")

    def add(self, source: str, flavour: str, image: str) -> None:
        """Records that an image (by its id) was built from files (by their digest). Raises StoreFault."""
        body = {"source": source, "flavour": flavour, "image": image}
        write_whole(self._note_path(source, flavour), f"{canonical_json(body)}\n".encode(), 0o600)

    def image_of(self, source: str, flavour: str) -> str:
        """Returns the id of the image that was built last from these files, "" if none was."""
        found = _read_note(self._note_path(source, flavour))
        return found.get("image", "") if (found.get("source"), found.get("flavour")) == (source, flavour) else ""

    def sources_of(self, image: str) -> frozenset[str]:
        """Returns the digests of all sources from which an image is recorded as built."""
        every = (_read_note(path) for path in self.folder.glob("*.json"))
        return frozenset(found["source"] for found in every if found.get("image") == image and "source" in found)

    def _note_path(self, source: str, flavour: str) -> Path:
        return self.folder / f"{source.removeprefix('sha256:')}-{flavour}.json"


def _read_note(path: Path) -> dict[str, str]:
    """Returns one file of the record, {} if it cannot be read: then the image is built again."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
