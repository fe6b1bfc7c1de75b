"""Makes the JSON schemas of all texts that come in or go out, from the models that validate them.

`make schemas` writes them to schemas/ with `python -m orchestrator.schemas schemas`; a test fails if a file there is
out of date.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from orchestrator import plugins
from orchestrator.intake.contest_file import ContestFile
from orchestrator.intake.manifest import Manifest
from orchestrator.ledger.event_registry import event_models
from orchestrator.protocol import messages
from orchestrator.scoring.results_file import Results

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_documents() -> dict[str, str]:
    """Returns the text of each schema by its file name in schemas/."""
    schemas = {
        "messages.schema.json": _messages_schema(),
        "contest.schema.json": _contest_schema(),
        "submission.schema.json": _model_schema(Manifest, "A submission's manifest, submission.yaml"),
        "results.schema.json": _model_schema(Results, "A round's results.json", mode="serialization"),
        "events.schema.json": _events_schema(),
    }
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


class _UntitledFields(GenerateJsonSchema):
    """Leaves out titles, which would only repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class names it
        return False


def _model_schema(model: type[BaseModel], title: str, mode: Any = "validation") -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_UntitledFields, mode=mode)
    return {"$schema": DIALECT} | schema | {"title": title}


def _events_schema() -> dict[str, Any]:
    every: Any = Union[tuple(event_models().values())]  # noqa: UP007  the models are found at run time
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[every, Field(discriminator="kind")])
    schema = adapter.json_schema(schema_generator=_UntitledFields)
    return {"$schema": DIALECT, "title": "The events of a round's ledger"} | schema


def _contest_schema() -> dict[str, Any]:
    """Returns the contest file's schema, including the options of every dataset and the rules of every format."""
    schema = _model_schema(ContestFile, "A contest file, contest.yaml")
    definitions: dict[str, Any] = schema["$defs"]
    rules = {name: plugins.load_plugin("formats", name).rules_type for name in plugins.plugin_names("formats")}
    kinds = {name: plugins.load_plugin("datasets", name).options_type for name in plugins.plugin_names("datasets")}
    for model in (*rules.values(), *kinds.values()):
        part = model.model_json_schema(schema_generator=_UntitledFields, ref_template="#/$defs/{model}")
        definitions |= part.pop("$defs", {})
        definitions[model.__name__] = part
    for name, model in kinds.items():
        properties = definitions[model.__name__]["properties"]
        definitions[model.__name__]["properties"] = {"kind": {"const": name}} | properties
        required = definitions[model.__name__].get("required", [])
        definitions[model.__name__]["required"] = ["kind", *required]
    schema["properties"]["rules"] = {"anyOf": [_reference(model) for model in rules.values()]}
    definitions["TaskSection"]["properties"]["dataset"] = {"anyOf": [_reference(model) for model in kinds.values()]}
    return schema


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{model.__name__}"}


def _messages_schema() -> dict[str, Any]:
    sides: dict[str, TypeAdapter[Any]] = {
        "FromOrchestrator": TypeAdapter(messages.FromOrchestrator),
        "FromPlayer": TypeAdapter(messages.FromPlayer),
    }
    references, collected = TypeAdapter.json_schemas(
        [(name, "validation", side) for name, side in sides.items()], schema_generator=_UntitledFields
    )
    definitions: dict[str, Any] = collected["$defs"]
    for definition in definitions.values():
        _require_constants(definition)
    definitions |= {name: schema for (name, _), schema in references.items()}
    return {
        "$schema": DIALECT,
        "title": "Headers of the image protocol, version 1",
        "description": "Generated from orchestrator/protocol/messages.py. The rest is in schemas/protocol.md.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in sides],
        "$defs": definitions,
    }


def _require_constants(definition: dict[str, Any]) -> None:
    """Makes `type` and `protocol` required: our models have defaults for them, but messages always contain them."""
    properties = definition.get("properties", {})
    constants = [name for name, field in properties.items() if "const" in field]
    for name in constants:
        properties[name].pop("default", None)
    if constants:
        definition["required"] = constants + [name for name in definition.get("required", []) if name not in constants]


def main(arguments: list[str]) -> None:
    """Writes all schemas into the folder that is the only argument."""
    if len(arguments) != 1:
        sys.exit("usage: python -m orchestrator.schemas FOLDER")
    folder = Path(arguments[0])
    for name, text in schema_documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
