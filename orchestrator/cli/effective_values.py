"""The values that `sparring contest check` shows: each key of a contest file, including defaults."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from pydantic import BaseModel, ByteSize

from orchestrator.intake.contest_file import ContestFile

_SHOWN_OTHERWISE = frozenset({"sparring", "contest", "title", "format", "task", "tasks", "baselines", "submissions"})
_SIZE_UNITS = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}


def effective_values(file: ContestFile, rules: BaseModel) -> Iterator[tuple[str, str, bool]]:
    """Yields each key with its value and whether that is the default, except tasks and entries, which are shown apart.

    Keys of `cluster` are included if the file sets one: a contest on one machine needs none of them.

    Args:
        file: the contest file.
        rules: its rules, as its format reads them.
    """
    for key in type(file).model_fields:
        if key in _SHOWN_OTHERWISE or (key == "cluster" and key not in file.model_fields_set):
            continue
        section = rules if key == "rules" else getattr(file, key)
        if not isinstance(section, BaseModel):
            yield key, value_text(section), key not in file.model_fields_set
            continue
        given = file.rules.keys() if key == "rules" else section.model_fields_set
        for name in type(section).model_fields:
            yield f"{key}.{name}", value_text(getattr(section, name)), name not in given


def value_text(value: object) -> str:
    """Returns a value as it is written in a contest file."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {value_text(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return _scalar_text(value)


def _scalar_text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case ByteSize():
            unit = next((unit for unit, count in _SIZE_UNITS.items() if value % count == 0), "")
            return f"{value // _SIZE_UNITS.get(unit, 1)}{unit}"
        case datetime():
            return value.isoformat()
    return str(value)
