"""schemas/protocol.md says what the code does: reasons, messages, fields, limits and bytes."""

import ast
import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from orchestrator import errors
from orchestrator.protocol import frames, messages, transcript

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "schemas" / "protocol.md").read_text(encoding="utf-8")
MESSAGES = [
    *(messages.Hello, messages.Perturb, messages.Classify, messages.Gradient, messages.Reply, messages.Bye),
    *(messages.Ready, messages.Candidates, messages.Answers, messages.Gradients, messages.Query, messages.Fault),
]


def section(heading: str) -> str:
    """Returns the text under a heading, up to the next one of its level."""
    level = heading.split(" ", maxsplit=1)[0]
    [_, rest] = f"\n{TEXT}".split(f"\n{heading}\n")
    return re.split(rf"\n#{{2,{len(level)}}} ", rest)[0]


def first_column(heading: str) -> list[str]:
    """Returns the words in the first column of the section's tables."""
    return re.findall(r"^\| `([a-z0-9_.-]+)` \|", section(heading), re.MULTILINE)


def reasons() -> set[str]:
    """Returns the reason words that orchestrator/protocol gives to ProtocolFault."""
    words = set()
    for path in (ROOT / "orchestrator" / "protocol").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("ProtocolFault", "_fault")):
                words |= {part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)}
    return words


def fields(model: type[BaseModel]) -> list[str]:
    """Returns the names of a model's fields, those of models in it with a dot."""
    names = []
    for own, field in model.model_fields.items():
        name = field.alias or own
        parts = getattr(field.annotation, "__args__", (field.annotation,))
        inner = next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)
        names += [name] if inner is None or len(parts) > 1 else []
        names += [f"{name}.{below}" for below in (fields(inner) if inner else ())]
    return names


def test_every_reason_is_specified():
    """The table lists exactly the reasons that the code knows, each once."""
    assert sorted(first_column("## Reasons")) == sorted(reasons())


def test_every_reason_has_a_vector():
    """A test vector ends in each reason, but for the one that follows another fault."""
    index = json.loads((ROOT / "schemas" / "vectors" / "vectors.json").read_text(encoding="utf-8"))
    assert {case["reason"] for case in index["malformed"]} == reasons() - {"after-fault"}


def test_every_fault_is_specified():
    """The table of faults lists the codes of all that a submission can be at fault for."""
    faults, found = [errors.SubmissionFault], set()
    while faults:
        below = faults.pop().__subclasses__()
        faults += below
        found |= {fault.code for fault in below if fault.__module__ == errors.__name__}
    assert set(first_column("## Faults")) == found


@pytest.mark.parametrize("model", MESSAGES, ids=lambda model: model.__name__)
def test_every_field_is_specified(model):
    """Each message has its heading, and its table lists exactly its fields."""
    kind = model.model_fields["type"].default
    assert sorted(first_column(f"### `{kind}`")) == sorted(fields(model))


def test_every_message_is_specified():
    """There is a heading for each message and for nothing else."""
    assert sorted(re.findall(r"^### `([a-z]+)`$", TEXT, re.MULTILINE)) == sorted(
        model.model_fields["type"].default for model in MESSAGES
    )


def test_transcripts_are_specified():
    """The table lists exactly the fields of an entry."""
    assert sorted(first_column("## Transcripts")) == sorted(fields(transcript.TranscriptEntry))
    assert f'{{"transcript":{transcript.VERSION}}}' in section("## Transcripts")


def test_the_limits_are_those_of_the_code():
    """Numbers in the specification are the numbers that are checked."""
    limits = section("## Limits")
    assert f"| header | {frames.HEADER_LIMIT:,} bytes |" in limits
    assert f"| depth of a header | {frames.NESTING_LIMIT} |" in limits
    assert f"# The image protocol, version {messages.PROTOCOL_VERSION}\n" in TEXT


@pytest.mark.parametrize("name", ["classify-one", "answers-one"])
def test_the_dumps_are_the_vectors(name):
    """The bytes in the specification are those of the vector, and the texts beside them are their characters."""
    [dump] = re.findall(rf"^```hexdump {name}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    data, header = b"", ""
    for line in dump.splitlines():
        digits, beside = line[:50], line[50:]
        piece = bytes.fromhex(digits)
        if len(data) >= 12 and piece.decode("latin-1") == beside:
            header += beside
        data += piece
    assert data == (ROOT / "schemas" / "vectors" / f"{name}.bin").read_bytes()
    assert json.loads(header)["id"] == 2
