"""A Dockerfile before it is built: what it stands on, and what would reach the network."""

from pathlib import Path

import pytest

from orchestrator.errors import MAX_PROBLEMS, Rejected
from orchestrator.intake import dockerfile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def read(tmp_path):
    """Reads a Dockerfile of these lines."""

    def read(text: str, given=None, **more):
        (tmp_path / "Dockerfile").write_bytes(text.encode())
        return dockerfile.read_dockerfile(tmp_path, given, **more)

    return read


@pytest.fixture
def refused(read):
    """Returns the problems with which a Dockerfile is refused."""

    def refused(text: str) -> list[str]:
        with pytest.raises(Rejected) as caught:
            read(text)
        assert all(problem.remedy for problem in caught.value.problems)
        return [f"{problem.place}: {problem.what}" for problem in caught.value.problems]

    return refused


def test_every_recipe_of_ours_is_read() -> None:
    """The Dockerfiles of the baselines and of the demo stand on the bases."""
    folders = [path.parent for path in (ROOT / "images").glob("*/submission.yaml")]
    folders += [path.parent for path in (ROOT / "examples" / "demo" / "submissions").glob("*/Dockerfile")]
    assert len(folders) > 10
    for folder in folders:
        assert set(dockerfile.read_dockerfile(folder).bases) <= {"sparring/base:cpu", "sparring/base-torch:cpu"}


def test_stages_and_arguments_are_followed(read) -> None:
    """An argument's default is used unless another value is given; a stage is no image, and scratch is none."""
    text = (
        "# a comment\n# syntax=docker/dockerfile:1\nARG BASE=team/base:1\nARG EMPTY\nFROM ${BASE} AS Parts\n"
        "ARG PIP_NO_INDEX\nRUN echo one && \\\n# aside\n\n    echo two\n"
        "FROM scratch\nCOPY --from=parts --chown=1:1 /x /x\nCOPY --from=0 /y /y\nFROM parts\nADD rootfs.tar /\n"
    )
    found = read(text)
    assert found.bases == ("team/base:1",)
    assert found.arguments == {"BASE": "team/base:1", "EMPTY": "", "PIP_NO_INDEX": ""}
    assert read(text, {"BASE": "other:2"}).bases == ("other:2",)
    assert read(text.replace("\n", "\r\n")).bases == ("team/base:1",)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("COPY --from=team/entry:1 /x /x", "is no stage above"),
        ("COPY --from=1 /x /x", "is no stage above"),
        ("COPY --from=me /x /x", "is no stage above"),
        ("COPY --fr\\om=team/entry:1 /x /x", "a flag in a form that is not supported"),
        ('COPY --from="team/entry" /x /x', "a flag in a form that is not supported"),
        ("COPY --chown=1:1 --from=team/entry /x /x", "is no stage above"),
        ("COPY --from=$X /x /x", "a flag in a form that is not supported"),
        ("ADD http://example.org/x /x", "ADD of more than plain file names"),
        ("ADD ht\\tp://example.org/x /x", "ADD of more than plain file names"),
        ('ADD ["http\\u003a//example.org/x", "/x"]', "ADD of more than plain file names"),
        ("ADD $SOURCE /x", "ADD of more than plain file names"),
        ("ADD git@example.org:x.git /x", "ADD of more than plain file names"),
        ("ONBUILD RUN true", "ONBUILD"),
        ("RUN <<EOF", "a here-document"),
        ("RUN --mount=type=bind,from=team/entry,target=/x true", "RUN with a flag"),
        ("RUN --network=host true", "RUN with a flag"),
        ("FROM $UNKNOWN", "names no image"),
        ("FROM ${BASE:-evil}", "names no image"),
        ("FROM --platform=linux/arm64 x", "not supported"),
        ("FROM http://x", "names no image"),
        ("WGET x", "unknown instruction 'WGET'"),
        ("COPY --from=00000099999999999999999999999999 /x /x", "is no stage above"),
        ("COPY --from=00 /x /x", "is no stage above"),
        ("RUN cat <<1", "a here-document"),
        ("ARG 1=2", "ARG in a form that is not supported"),
        ("ARG X=1 NAME=team/entry:1", "ARG in a form that is not supported"),
        ("ARG X=1\tNAME=team/entry:1", "ARG in a form that is not supported"),
        ('ARG X="1" NAME="team/entry:1"', "ARG in a form that is not supported"),
        ("ARG X=1 \\\nNAME=team/entry:1", "ARG in a form that is not supported"),
        ("ARG X NAME=team/entry:1", "ARG in a form that is not supported"),
        ('ARG X=te"am/entry:1"', "ARG in a form that is not supported"),
        ("ARG X=te\\am/entry:1", "ARG in a form that is not supported"),
        ('ARG X="a\\"b"', "ARG in a form that is not supported"),
        ("ARG X=1 # one", "ARG in a form that is not supported"),
        ("RUN true \\\\", "two backslashes at its end"),
        ("RUN true\x0bFROM team/entry", "cannot be printed"),
        ("RUN true \\\u2028", "cannot be printed"),
        ("# escape=`", "another escape character"),
        ("RUN true \\\n  # aside\nFROM team/entry", "an indented comment within an instruction"),
        ("\\\n  # aside\nFROM team/entry", "an indented comment within an instruction"),
    ],
)
def test_what_reaches_out_or_means_two_things_is_refused(refused, line, what) -> None:
    """Each line that would fetch something, or that engines read differently, is named with its number."""
    number = 3 if "aside" in line else 2
    [problem, *_] = refused(f"FROM scratch AS me\n{line}\n")
    assert problem.startswith(f"line {number}: ")
    assert what in problem


def test_an_argument_is_one_to_a_line(read) -> None:
    """A value is a word, or stands in quotes of one kind; the engine gives it without them."""
    text = """ARG A=a=b#c\nARG B='two words'\nARG C="it's"\nARG D=\nARG E\nARG F=""\nARG G="'g'"\nFROM scratch\n"""
    assert read(text).arguments == {"A": "a=b#c", "B": "two words", "C": "it's", "D": "", "E": "", "F": "", "G": "'g'"}


def test_an_address_is_fine_with_a_network(read) -> None:
    """Who gives a build a network may let it fetch."""
    assert read("FROM scratch\nADD https://example.org/x /x\n", network=True).bases == ()


def test_an_argument_of_a_stage_is_none_of_a_from(refused, read) -> None:
    """What a stage declares is not seen by the next FROM, as in the builder."""
    assert refused("FROM scratch\nARG BASE=team/base\nFROM $BASE\n") == ["line 3: FROM $BASE names no image"]
    assert read("ARG BASE=team/base\nFROM scratch\nARG BASE=other\nFROM $BASE\n").bases == ("team/base",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no FROM"),
        ("RUN true\nFROM scratch\n", "RUN before FROM"),
        ("FROM scratch\n" + "#" * 300_000, "more than 262144 bytes"),
    ],
)
def test_odd_files_are_refused(refused, text, what) -> None:
    """A Dockerfile begins with FROM, and has a bounded size."""
    assert what in refused(text)[0]


def test_a_missing_or_linked_file_is_refused(tmp_path) -> None:
    """No Dockerfile, or a link in its place, is refused with a remedy."""
    with pytest.raises(Rejected, match="missing, or no plain file"):
        dockerfile.read_dockerfile(tmp_path)
    (tmp_path / "Dockerfile").symlink_to("/etc/hostname")
    with pytest.raises(Rejected, match="missing, or no plain file"):
        dockerfile.read_dockerfile(tmp_path)


def test_few_of_many_problems_are_listed(read) -> None:
    """Every one of a hundred thousand lines may be a problem."""
    with pytest.raises(Rejected) as caught:
        read("FROM sparring/base:cpu\n" + "x\n" * 1000)
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert caught.value.problems[-1].what == f"and {1000 - MAX_PROBLEMS} more problems like these"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["RUN echo " + "&" * 40_000], "line 2: RUN of up to 40005 characters, at most 32768"),
        (["RUN a \\"] + ["b" * 20_000 + " \\"] * 2, "line 2: RUN of up to"),
        (["ENV A=" + "x" * 1000, "ENV B=" + "$A" * 40], "line 3: ENV of up to"),
        (["ENV A=$PATH$PATH$PATH", *["ENV A=$A${A}$A"] * 4], "line 5: ENV of up to"),
        (["ENV A b$PATH$PATH=$PATH", *["ENV A=$A${A:-$A}"] * 5], "line 5: ENV of up to"),
        (["ENV A=" + "x" * 20_000, "ENV A=y", "WORKDIR /$A/$A"], "line 4: WORKDIR of up to"),
        (["ARG A=" + "x" * 20_000, "ARG B=$A$A"], "line 3: ARG of up to"),
        (["ARG A=" + "x" * 20_000, "FROM $A$A"], "line 3: FROM of up to"),
        (["ENV A=" + "x" * 30_000, *["LABEL a=$A"] * 40], "line 36: more than 1048576 characters of instructions"),
        (["ENV A=x", "COPY ${A//x/yyyy} /"], "line 3: a variable with a replacement"),
        (['ENV "A"=x'], "line 2: ENV in a form that is not supported"),
        (["ENV $A=x"], "line 2: ENV in a form that is not supported"),
        (["ENV A\\B=x"], "line 2: ENV in a form that is not supported"),
        (["ENV A=x B"], "line 2: ENV in a form that is not supported"),
        (["ENV A='x"], "line 2: ENV in a form that is not supported"),
        (["ENV $A x"], "line 2: ENV in a form that is not supported"),
    ],
)
def test_instructions_are_short_with_their_variables_replaced(refused, lines, problem) -> None:
    """The engine replaces variables itself, in whatever memory and time that takes, and repeats instructions."""
    assert refused("\n".join(["FROM sparring/base:cpu", *lines, ""]))[0].startswith(problem)


def test_ordinary_variables_are_read(read) -> None:
    """Values that refer to others, a few times each, in both forms of ENV."""
    text = (
        "ARG BASE=sparring/base:cpu\nFROM ${BASE}\nARG VERSION=1.2\n"
        'ENV HOME=/x PATH="$HOME/bin:$PATH" NAME=a\\ b\nENV OPTIONS -Da=$HOME it\'s\n'
        + "ENV PATH=$PATH:/more/$VERSION\n" * 10
        + 'LABEL price="$5" path=$PATH\nWORKDIR ${HOME:-/y}/$VERSION\nCOPY a $HOME/b\n'
        + "RUN echo "
        + "$PATH " * 100
        + "\n"
    )
    assert read(text).bases == ("sparring/base:cpu",)
