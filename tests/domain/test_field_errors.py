"""What people read about a wrong field: what stands there, what is allowed, and none of pydantic's words."""

import itertools
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator import plugins
from orchestrator.domain.contest_events import PersonRecord, SubmissionReceived, TeamAdded
from orchestrator.domain.field_errors import field_errors, first_field_error
from orchestrator.intake.contest_file import ContestFile
from orchestrator.intake.manifest import Manifest

PYDANTICS_WORDS = re.compile(
    r"(?i:value error|assertion failed|input should|input is|should (be|have|match)|valid \w+,|unable to|field required"
    r"|validation|permitted|pydantic|dictionary|timezone info)|\b(None|True|False|Decimal)\b"
)
ODD_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1.5, 10**30, float("nan"), float("inf"), "", "x", "A B", "8/255", "no\0", "x" * 3000),
    *([], ["x"], [[]], {}, {"x": 1}, {"name": None}),
]


TEXT = "write text, in quotation marks where it looks like something else"


class Small(BaseModel):
    """One key of each kind."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern="^[a-z]+$", description="lower case letters", max_length=5)] = "a"
    number: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    kind: Literal["one", "two"] = "one"
    either: Literal["all"] | Annotated[int, Field(ge=1)] = "all"
    words: Annotated[list[str], Field(min_length=2)] = ["a", "b"]
    digest: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")] = "sha256:" + 64 * "0"
    below: "list[Below]" = []


class Below(BaseModel):
    """What lies in a list."""

    model_config = ConfigDict(extra="forbid")

    weight: bool = True


def problems(document: dict[str, Any], kind: type[BaseModel] = Small) -> list[str]:
    """Returns the messages about a document."""
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(document)
    return [str(each) for each in field_errors(caught.value, kind)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "A"}, "name: 'A' is not allowed here; write lower case letters"),
        ({"name": "abcdefgh"}, "name: 8 characters are too many; write at most 5 characters"),
        ({"name": 7}, f"name: 7 is not text; {TEXT}"),
        ({"number": "many"}, "number: 'many' is not a whole number; write a whole number"),
        ({"number": 2.5}, "number: 2.5 is not a whole number; write a whole number"),
        ({"number": 0}, "number: 0 is too small; write at least 1"),
        ({"number": 10}, "number: 10 is too large; write at most 9"),
        ({"share": 1}, "share: 1 is too large; write less than 1"),
        ({"share": None}, "share: nothing is not a number; write a number"),
        ({"kind": "three"}, "kind: 'three' is not allowed here; write one or two"),
        ({"either": "some"}, "either: none of the values that are allowed here; write all or a whole number"),
        ({"either": 0}, "either: none of the values that are allowed here; write all or at least 1"),
        ({"words": ["a"]}, "words: a list of 1 item is too short; write at least 2 of them"),
        ({"words": "a, b"}, "words: 'a, b' is not a list; write a list, such as [first, second]"),
        (
            {"words": ["a", 1]},
            "words[1]: 1 is not text; write text, in quotation marks where it looks like something else",
        ),
        ({"digest": "latest"}, "digest: 'latest' is not allowed here; write sha256: and 64 of the digits 0-9 and a-f"),
        ({"nmae": "a"}, "nmae: unknown key; did you mean 'name'?"),
        ({"weight": 1}, "weight: unknown key; it belongs below 'below'"),
        ({"below": [{"kind": "one"}]}, "below[0].kind: unknown key; it belongs to the top level"),
        ({"below": [{"zzz": 1}]}, "below[0].zzz: unknown key; remove it; the keys here are weight"),
        ({"below": ["weight"]}, "below[0]: 'weight' is not a mapping; write keys with their values"),
        ({"below": [{"weight": "much"}]}, "below[0].weight: 'much' is neither true nor false; write true or false"),
    ],
)
def test_a_typical_mistake_is_told_in_plain_words(document, message):
    """A message says what stands there, and what to write in its place."""
    assert problems(document) == [message]


def test_without_the_model_a_message_is_still_plain():
    """Documents that a program wrote are validated without their model at hand."""
    with pytest.raises(ValidationError) as caught:
        Small.model_validate({"zzz": 1})
    assert first_field_error(caught.value) == "zzz: unknown key; remove it"


def models() -> list[type[BaseModel]]:
    """Returns every model that people fill in by hand."""
    kinds = [plugins.load_plugin("datasets", name).options_type for name in plugins.plugin_names("datasets")]
    kinds += [plugins.load_plugin("formats", name).rules_type for name in plugins.plugin_names("formats")]
    kinds += [ContestFile, Manifest, PersonRecord, SubmissionReceived, TeamAdded]
    return sorted({part for kind in kinds for part in sections(kind)}, key=lambda kind: kind.__name__)


def sections(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yields a model and the models in it."""
    yield kind
    for field in kind.model_fields.values():
        for part in [field.annotation, *get_args(field.annotation)]:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from sections(part)


@pytest.mark.parametrize("kind", models(), ids=lambda kind: kind.__name__)
def test_no_message_has_pydantics_words(kind):
    """Whatever stands at a key of what people fill in, each message is ours and has a remedy."""
    for key, value in itertools.product(["zzz", *kind.model_fields], ODD_VALUES):
        try:
            kind.model_validate({key: value})
        except ValidationError as error:
            for each in field_errors(error, kind):
                assert not PYDANTICS_WORDS.search(each.what + "; " + each.remedy), str(each)
                assert each.remedy, str(each)
                assert str(each).isprintable()
