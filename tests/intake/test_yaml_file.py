"""YAML as it is read: strict, with lines, and safe from strangers."""

import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import Rejected
from orchestrator.intake import manifest
from orchestrator.intake.manifest import Manifest
from orchestrator.intake.yaml_file import SIZE_LIMIT, YamlFile

GOOD = "sparring: 1\nname: a\nside: attack\ncommand: [python, player.py]\n"
BOMB = GOOD + "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
for level in range(1, 30):
    BOMB += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 2)}]\n"


@pytest.fixture
def refused(submitted):
    """Returns the problems with which a manifest of this text is refused, as text."""

    def problems(text):
        with pytest.raises(Rejected) as caught:
            manifest.read_manifest(submitted(text))
        return [str(problem) for problem in caught.value.problems]

    return problems


def test_a_manifest_says_who_plays(submitted):
    """What a submission says of itself, and what it may leave out."""
    found = manifest.read_manifest(submitted(GOOD + "licence: MIT\n"))
    assert (found.name, found.side, found.command) == ("a", "attack", ["python", "player.py"])
    assert (found.licence, found.image, found.gpu, found.description) == ("MIT", "", False, "")


def test_this_is_yaml_1_2(submitted):
    """`no` and `on` are words; only true and false are truth."""
    assert manifest.read_manifest(submitted(GOOD + "description: no\n")).description == "no"
    assert manifest.read_manifest(submitted(GOOD + "description: on\n")).description == "on"


def test_a_byte_order_mark_is_no_key(submitted):
    """A file that begins with one is read like any other."""
    assert manifest.read_manifest(submitted(b"\xef\xbb\xbf" + GOOD.encode())).name == "a"


def test_every_problem_of_a_manifest_is_told(refused):
    """Wrong types, ranges, patterns, unknown and missing keys come together, each with its line."""
    text = "sparring: '1'\nname: A\ncommand: []\nimage: ../x\ngpu: maybe\nlicense: MIT\n"
    assert refused(text) == [
        "line 1, sparring: '1' is not allowed here; write 1",
        "line 2, name: 'A' is not allowed here; write lower case, digits, - and _",
        "line 1, side: missing; add it",
        "line 3, command: a list of 0 items is too short; write at least 1 of them",
        "line 4, image: '../x' is not allowed here; write an image's name in lower case, such as team/entry:1",
        "line 5, gpu: 'maybe' is neither true nor false; write true or false",
        "line 6, license: unknown key; did you mean 'licence'?",
    ]
    assert refused(GOOD + "license: MIT\n") == ["line 5, license: unknown key; did you mean 'licence'?"]


def test_a_key_that_occurs_twice_is_an_error(refused):
    """Which of the two was meant cannot be known; the second one's line is told."""
    [problem] = refused(GOOD + "name: b\n")
    assert problem.startswith("line 5: not YAML: found duplicate key")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD + "x: [1, 2\n", 6),
        (GOOD + "\tx: 1\n", 5),
        (GOOD + "x: *unknown\n", 5),
        (GOOD + "x: 'never closed\n", 6),
        (GOOD + "x: @y\n", 5),
        (GOOD + "---\nx: 1\n", 5),
        (GOOD + "<<: 3\n", 5),
        ("%YAML 9.9\n---\n" + GOOD, 1),
    ],
)
def test_what_is_not_yaml_is_told_with_its_line(refused, text, line):
    """Unclosed brackets and quotes, tabs, unknown aliases and second documents are refused where they stand."""
    [problem] = refused(text)
    assert problem.startswith(f"line {line}: not YAML: ")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "3", "null", "# nothing\n"])
def test_a_file_is_one_mapping(refused, text):
    """Lists, words and nothing are no contest and no manifest."""
    assert refused(text) == ["line 1: not a mapping of keys to values; start with `sparring: 1`"]


@pytest.mark.parametrize("data", [b"name: \xff\n", GOOD.encode("utf-16"), b"\x80"])
def test_a_file_is_utf_8(refused, data):
    """Other encodings are refused with the remedy."""
    [problem] = refused(data)
    assert problem.endswith("; store it as UTF-8")


@pytest.mark.parametrize(
    "more",
    [
        "description: " + "1" * 5000,
        "description: 0x" + "f" * 5000,
        "description: 2026-13-45",
        "description: 2026-01-01T99:00:00Z",
        "description: !!int abc",
        "description: !!float abc",
        "description: !!bool abc",
        "description: !!python/object/apply:os.system [id]",
        "description: &again [*again]",
        "description: &a x\nimage: &a y",
        "description: " + "[" * 1000,
        "description: " + "{a: " * 1000,
        "description: \x01",
        'description: "\\ud800"',
        "function-x: 1",
        "tagged-x: 1",
        "<<: {sparring: 2, name: 7}\n? [a, b]\n: 1",
        "1: x",
        "null: x",
        "? {a: b}\n: x",
        "? [&k [a]]\n: x",
    ],
)
def test_whatever_a_stranger_writes_is_a_refusal(refused, more):
    """Endless numbers, bad dates, tags, depth, odd keys and merges are problems of the file and no crash."""
    found = refused(GOOD + more + "\n")
    assert found
    assert all(problem.isprintable() and len(problem) < 700 for problem in found)


def test_a_merged_key_is_told_at_the_merge(refused):
    """A key that came in by `<<` has no line of its own; its problem stands at the line of the mapping around it."""
    [problem] = refused("<<: {name: A}\nsparring: 1\nside: attack\ncommand: [x]\n")
    assert problem.startswith("line 1, name: 'A' is not allowed here")


def test_a_short_file_that_means_a_huge_one_costs_nothing(refused):
    """Aliases of aliases mean 5 * 10^9 items; they are neither counted out nor printed."""
    began = time.monotonic()
    found = refused(BOMB + "description: *a29\nlicence: *a29\n")
    assert "description: a list of 2 items is not text" in found[0]
    assert sum(map(len, found)) < 10_000
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("more", "line", "what"),
    [
        ("a: " + "[" * 60_000, 5, "more than 32 lists and mappings nested in each other"),
        ("a: " + "[" * 30_000 + "]" * 30_000, 5, "more than 32 lists and mappings nested in each other"),
        ("a: " + "{a: " * 15_000, 5, "more than 32 lists and mappings nested in each other"),
        (
            "\n".join(" " * depth + "a:" for depth in range(300)),
            37,
            "more than 32 lists and mappings nested in each other",
        ),
        ("a:\n  " + "- " * 30_000, 6, "more than 32 lists and mappings nested in each other"),
        ("a: {" + "b," * 30_000, 5, "more than 4096 keys, values, brackets and comments"),
        ("\n".join(f"k{number}: !t x" for number in range(4_000)), 820, "more than 4096 keys, values, brackets"),
        ("a: &a {x: 1}\n" + "\n".join(f"b{number}: {{<<: *a}}" for number in range(2_000)), 70, "more than 64 aliases"),
    ],
    ids=["open brackets", "brackets", "braces", "indents", "dashes", "keys in braces", "keys", "merges"],
)
def test_a_file_that_takes_long_to_read_is_not_read_to_its_end(refused, more, line, what):
    """Depth, tokens and aliases are bounded while a file is read: the work on brackets grows with their square."""
    [problem] = refused(GOOD + more)
    assert problem.startswith(f"line {line}: {what}")
    assert problem.endswith("; write a shorter file with less nesting")


def test_a_file_of_sensible_depth_is_read(submitted):
    """Ten levels, and as many keys as a manifest has at most, are no reason to refuse."""
    path = submitted("a: " + "[" * 10 + "]" * 10 + "".join(f"\nk{number}: 1" for number in range(900)))
    assert YamlFile(path / manifest.FILE_NAME, manifest.SIZE_LIMIT).value_at("k899") == 1


def test_many_problems_are_counted(refused):
    """Fifty problems are listed and the others counted."""
    found = refused(GOOD + "".join(f"k{n}: 1\n" for n in range(200)))
    assert (len(found), found[-1]) == (51, "file: and 150 more problems")


def test_hostile_values_are_shown_escaped(refused):
    """Control characters of keys and values come out as escapes, and long ones are cut."""
    found = refused(GOOD + '"\\e[2J\\nline 1, all: well": 1\nlicence: "' + "\\e" * 500 + '"\n')
    assert all(problem.isprintable() for problem in found)
    assert r"\x1b[2J\nline 1, all: well" in found[1]
    assert len(found[0]) < 200


def test_a_manifest_is_short(refused, submitted):
    """64 KiB is the most that a stranger's manifest may have; a contest file may have 1 MiB."""
    text = GOOD + "#" * (64 * 1024)
    assert refused(text) == [f"file: {len(text)} bytes, at most 65536; shorten it"]
    assert YamlFile(submitted(text) / manifest.FILE_NAME).parse_model(Manifest).name == "a"
    assert SIZE_LIMIT == 1024**2


def test_a_missing_manifest_is_told(tmp_path):
    """The remedy is the folder of a submission, not another YAML file."""
    with pytest.raises(Rejected, match="file: missing; give the folder of a submission, or make one with `sparring"):
        manifest.read_manifest(tmp_path)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "loop", "device"])
def test_a_manifest_is_a_file(tmp_path, kind):
    """Links, pipes, folders and devices in its place are refused and never opened."""
    path = tmp_path / manifest.FILE_NAME
    if kind == "link":
        (tmp_path / "other.yaml").write_text(GOOD)
        path.symlink_to(tmp_path / "other.yaml")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path if kind == "loop" else "/dev/zero")
    with pytest.raises(Rejected, match=r"a symbolic link|not a regular file"):
        manifest.read_manifest(tmp_path)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("abc:-?[]{}&*!|>'\"%#<, \n\t0123é\\", max_size=60), before=st.booleans())
def test_any_text_is_read_or_refused(submitted, text, before):
    """Whatever stands in a file, the answer is a manifest or a refusal with at least one problem."""
    folder = submitted(text + "\n" + GOOD if before else GOOD + text)
    try:
        manifest.read_manifest(folder)
    except Rejected as error:
        problems = error.problems
    else:
        problems = None
    assert problems is None or len(problems) > 0


@pytest.mark.parametrize("tag", ["!!python/object:os.system", "!!binary", "!!int", "!foo", "!!set"])
@pytest.mark.parametrize("place", ["sparring: {} 1\n", "sparring: 1\nname: [{} x]\n"])
def test_a_tag_is_refused_by_its_line(refused, tag, place):
    """Of which type a value is, the format says; a tag is named, with its line, and nothing of how it would be read."""
    line = place.count("\n")
    assert refused(place.format(tag)) == [f"line {line}: a tag, {tag}; write the value without it"]


def test_an_exclamation_mark_is_no_tag(submitted):
    """In a text it is a mark like any other."""
    assert manifest.read_manifest(submitted(GOOD + "description: 'no! !int'\n")).description == "no! !int"


@pytest.mark.parametrize("half", ["\\ud800", "x\\U0000dc80", "\\ud83d\\ude00"])
@pytest.mark.parametrize("place", ["command: [python, {}]\n", "description: {}\n", "{}: 1\n"])
def test_half_a_character_is_refused(refused, half, place):
    """No record can keep one, and no program can be given one: two halves are none either, in YAML."""
    text = GOOD.replace("command: [python, player.py]\n", "") + place.format(f'"{half}"')
    [problem] = refused(text)
    assert problem.startswith("line 4: half a character in '")
    assert problem.endswith("'; write the character itself")


def test_characters_may_be_escaped(submitted):
    """A whole one in an escape is the same as the character itself."""
    assert manifest.read_manifest(submitted(GOOD + 'description: "\\u00e9\\U0001F600"\n')).description == "é😀"


def test_an_empty_word_is_no_program(refused):
    """The first word of a command names one; others may be empty."""
    assert refused(GOOD.replace("[python", '["", ""')) == [
        "line 4, command[0]: an empty word, which is no program; name the program"
    ]


def test_a_nul_is_refused_in_a_command(refused):
    """No program can be given one."""
    assert refused(GOOD.replace("player.py", '"a\\0b"')) == [
        "line 4, command[1]: a NUL character, which no argument can contain; leave it out"
    ]
