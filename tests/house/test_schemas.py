"""The schemas in schemas/ are what the models say."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from orchestrator.schemas import schema_documents

SCHEMAS = Path(__file__).parents[2] / "schemas"
DOCUMENTS = schema_documents()


def test_no_schema_is_left_over():
    """Every JSON schema in the folder is generated."""
    assert {path.name for path in SCHEMAS.glob("*.schema.json")} == set(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_are_in_step(name):
    """`make schemas` would change nothing."""
    assert (SCHEMAS / name).read_text(encoding="utf-8") == DOCUMENTS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_are_schemas(name):
    """Each document is valid by the dialect that it names."""
    schema = json.loads(DOCUMENTS[name])
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
def test_the_program_writes_every_schema(tmp_path):
    """`python -m orchestrator.schemas FOLDER` writes the documents, and refuses to guess a folder."""
    program = [sys.executable, "-m", "orchestrator.schemas"]
    subprocess.run([*program, str(tmp_path)], check=True, cwd=SCHEMAS.parent)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == DOCUMENTS
    refused = subprocess.run(program, check=False, cwd=SCHEMAS.parent, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, "usage: python -m orchestrator.schemas FOLDER\n")
