"""Prints objects for a cluster as a stream of YAML documents.

Its readers may use an older version of YAML, in which `on` is true and `012` is a number, and it contains words of a
submission's command. So a text that is not plain in every version is quoted, and all characters outside ASCII are
escaped.
"""

import io
import re
import sys
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from orchestrator.application.kubernetes.render_jobs import (
    PLACEHOLDER_COMMAND,
    PLACEHOLDER_DIGEST,
    PLACEHOLDER_PICTURES,
    RenderedJobs,
)

_PLAIN_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_RESERVED_TEXTS = frozenset({"y", "yes", "n", "no", "on", "off", "true", "false", "null"})
_SEPARATOR = "---\n"


def yaml_stream(objects: tuple[dict[str, Any], ...]) -> str:
    """Returns objects as YAML documents, each after a `---`."""
    yaml = YAML()
    yaml.allow_unicode = False
    yaml.width = 2**20
    yaml.representer.ignore_aliases = lambda *_: True  # without aliases, each object is readable without the others
    buffer = io.StringIO()
    for document in objects:
        buffer.write(_SEPARATOR)
        yaml.dump(_quote_texts(document), buffer)
    return buffer.getvalue()


def print_manifests(rendered: RenderedJobs, *, offline: bool) -> None:
    """Prints the objects that would be created, after a comment with the review notes."""
    for line in review_notes(rendered, offline=offline):
        sys.stdout.write(f"# {line}\n")
    sys.stdout.write(yaml_stream((*rendered.jobs, rendered.lease)))


def manifest_document(rendered: RenderedJobs, *, offline: bool) -> dict[str, Any]:
    """Returns the objects and the review notes as one JSON document."""
    return {
        "notes": review_notes(rendered, offline=offline),
        "planned": rendered.planned_jobs,
        "placeholders": {"images": offline, "names": not rendered.has_round, "pictures": not rendered.has_pictures},
        "objects": [*rendered.jobs, rendered.lease],
    }


def review_notes(rendered: RenderedJobs, *, offline: bool) -> list[str]:
    """Returns what a reviewer has to know about these objects."""
    round_ref, job_count = rendered.round_ref, len(rendered.jobs)
    lines = [
        (
            f"Contest {round_ref.contest}, task {round_ref.task}: "
            f"{job_count} of {rendered.planned_jobs} Jobs, the first attempt of each."
        ),
    ]
    if job_count < rendered.planned_jobs:
        lines.append(f"{rendered.planned_jobs - job_count} more wait for others, replays last: --all shows them too.")
    lines += [
        "Later: a next attempt for each player that has to be replaced and each fault of ours, under a new name.",
        "The Lease at the end is its controller's, which fills it in.",
    ]
    if not rendered.has_round:
        lines.append(
            f"Placeholder: {round_ref.label_value} in names and labels; a round that is begun has its own (see --out)."
        )
    if not rendered.has_pictures:
        lines.append(
            f"Placeholder: {PLACEHOLDER_PICTURES} pictures for those of the task, which are not here: they "
            f"decide the digits in"
        )
        lines.append("a Job's name and its deadline.")
    if offline:
        lines.append(
            f"Placeholder: {PLACEHOLDER_DIGEST} is an image's digest that was not asked for, {PLACEHOLDER_COMMAND[0]}"
        )
        lines.append("its command, and what of its variables is blanked is not known. What runs is fixed at admission.")
    return lines


def _quote_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _quote_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_quote_texts(each) for each in value]
    plain = not isinstance(value, str) or (_PLAIN_TEXT.fullmatch(value) and value.lower() not in _RESERVED_TEXTS)
    return value if plain else DoubleQuotedScalarString(value)
