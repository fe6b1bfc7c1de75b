"""Reads a Dockerfile before it is built: its base images, its arguments, and lines that would reach the network.

The engine itself downloads missing images of FROM and COPY --from, and the address of an ADD, even if build steps have
no network. So these lines are read here as the classic builder reads them. A line that is not understood is refused: if
it meant one thing here and another to the engine, it could get around the check.

The engine itself also replaces variables by their values, outside the bounds of build steps. A variable may hold
others a hundred times, and so on, so the lengths of instructions are bounded as they are after that.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, first_problems

FILE_NAME = "Dockerfile"
MAX_BYTES = 256 * 1024
SCRATCH = "scratch"
MAX_INSTRUCTION = 32 * 1024
"""The most characters of an instruction, with its variables replaced by their values. The engine repeats instructions
in its answers, in which each character may take twelve bytes of a line."""
MAX_INSTRUCTIONS = 1024 * 1024
"""The most characters of all instructions together, counted in the same way."""
_UNKNOWN_LENGTH = 1024
"""The length for which a variable of the base image is taken."""
_INSTRUCTIONS = frozenset(
    {
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
        *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    }
)
_ESCAPE = re.compile(r"[ \t]*#[ \t]*escape[ \t]*=", re.IGNORECASE)
_ARGUMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(\"[^\"\\]*\"|'[^'\\]*'|[^\s\"'\\]*))?")
"""One name and its value. The engine allows several on a line, and quotes or backslashes that split or join them."""
_REPLACED_IN = frozenset(
    {"ADD", "ARG", "COPY", "ENV", "EXPOSE", "FROM", "LABEL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
)
"""The instructions in which the builder replaces variables."""
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_OLD_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]+.*", re.DOTALL)
_USE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)?")
_REPLACEMENT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*/")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_FROM = re.compile(r"(\S+)(?:\s+AS\s+([a-z][a-z0-9_.-]*))?", re.IGNORECASE)
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:[./:@][A-Za-z0-9_-]+)*")
_FLAG = re.compile(r"--([a-z-]+)=([A-Za-z0-9._:/-]+)(?:\s+|$)")
_PLAIN_FILES = re.compile(r"[A-Za-z0-9._/*?+=,@ \t-]+")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[^<\s]")


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A Dockerfile's base images, and the values of its ARGs."""

    bases: tuple[str, ...]
    arguments: Mapping[str, str]


def read_dockerfile(folder: Path, arguments: Mapping[str, str] | None = None, *, network: bool = False) -> Dockerfile:
    """Returns the base images and arguments of a folder's Dockerfile; `arguments` replace its defaults.

    With `network`, an ADD may name an address.

    Raises:
        Rejected: with every line, by number, that is not understood or would reach the network.
    """
    path = folder / FILE_NAME
    if path.is_symlink() or not path.is_file():
        remedy = "add one; images/README.md (`sparring copy images/README.md`) shows four lines that do"
        raise Rejected(f"folder {folder}", [Problem(FILE_NAME, "missing, or no plain file", remedy)])
    data = path.read_bytes()[: MAX_BYTES + 1]
    if len(data) > MAX_BYTES:
        raise Rejected(str(path), [Problem(FILE_NAME, f"more than {MAX_BYTES} bytes", "shorten it")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Rejected(str(path), [Problem(FILE_NAME, "not UTF-8", "store it as UTF-8")]) from None
    reader = _DockerfileReader(arguments or {}, network=network)
    for number, word, rest in _instructions(text, reader.problems):
        reader.read_instruction(number, word, rest)
    if not reader.stages:
        reader.problems.append(Problem(FILE_NAME, "no FROM", "begin with FROM sparring/base:cpu"))
    if reader.problems:
        raise Rejected(str(path), first_problems(reader.problems, FILE_NAME))
    return Dockerfile(tuple(dict.fromkeys(reader.bases)), reader.arguments)


def _instructions(text: str, problems: list[Problem]) -> Iterator[tuple[int, str, str]]:
    """Yields each instruction as line number, keyword and the rest, with continued lines joined.

    Engines differ in unusual cases: another escape character, two of them at a line's end, an indented comment within
    an instruction. These are refused, and so are all characters that a parser may take for the end of a line.
    """
    continued, first_line = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        stripped = line.strip()
        if odd := _ambiguity(line, within=bool(first_line)):
            problems.append(Problem(f"line {number}", *odd))
            continue
        if stripped.startswith("#") or not stripped:
            continue
        first_line = first_line or number
        if stripped.endswith("\\"):
            continued += line.rstrip()[:-1]
            continue
        yield _split_instruction(first_line, continued + line)
        continued, first_line = "", 0
    if continued.strip():
        yield _split_instruction(first_line, continued)


def _ambiguity(line: str, *, within: bool) -> tuple[str, str] | None:
    """Returns the part of a line that engines may read differently, and the remedy; None if there is none."""
    if not line.replace("\t", " ").isprintable():
        return "a character that cannot be printed", "use plain text, with line feeds between lines"
    if _ESCAPE.match(line):
        return "sets another escape character", "remove it, and continue lines with a backslash"
    if line.rstrip().endswith("\\\\"):
        return "two backslashes at its end", "end the line with one backslash or none"
    if within and line != line.lstrip() and line.lstrip().startswith("#"):
        return (
            "an indented comment within an instruction",
            "write it at the beginning of the line, or above the instruction",
        )
    return None


def _split_instruction(number: int, line: str) -> tuple[int, str, str]:
    word, *rest = line.split(maxsplit=1) or [""]
    return number, word.upper(), rest[0].strip() if rest else ""


class _DockerfileReader:
    """Reads one instruction after another, and collects problems."""

    def __init__(self, given: Mapping[str, str], *, network: bool) -> None:
        self.problems: list[Problem] = []
        self.arguments: dict[str, str] = {}
        self.bases: list[str] = []
        self.stages: list[str] = []
        self._arguments_given, self._network = given, network
        self._global_arguments: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        """The most characters that each variable of the file may have, in any stage."""
        self._total_length = 0
        self._place = FILE_NAME

    def read_instruction(self, number: int, word: str, rest: str) -> None:
        """Reads one instruction, and adds its problems."""
        self._place = f"line {number}"
        if word not in _INSTRUCTIONS:
            self._add_problem(f"unknown instruction {printable(word, 40)!r}", "see the Dockerfile reference")
        elif self._is_short(word, rest):  # else nothing more is read of it: it would take memory here, too
            self._read_known(word, rest)

    def _read_known(self, word: str, rest: str) -> None:
        if word == "ENV":
            self._read_environment(rest)
        if word == "ARG":
            self._read_argument(rest)
        elif word == "FROM":
            self._read_from(rest)
        elif not self.stages:
            self._add_problem(f"{word} before FROM", "begin with FROM")
        elif word in {"RUN", "COPY", "ADD"} and _HERE_DOCUMENT.search(rest):
            self._add_problem("a here-document, which the classic builder does not know", "put it into a file")
        elif word == "RUN" and rest.startswith("--"):
            self._add_problem("RUN with a flag, which the classic builder does not know", "write the command alone")
        elif word in {"ADD", "COPY"}:
            self._read_copy(word, rest)
        elif word == "ONBUILD":
            self._add_problem("ONBUILD changes images built from this one", "remove it")

    def _add_problem(self, problem: str, remedy: str) -> None:
        self.problems.append(Problem(self._place, problem, remedy))

    def _is_short(self, word: str, rest: str) -> bool:
        """Returns whether an instruction is short enough with its variables replaced; adds a problem if not."""
        replaced = word in _REPLACED_IN
        length = self._replaced_length(rest) if replaced else len(rest)
        self._total_length += length
        if length > MAX_INSTRUCTION:
            how = ", with variables replaced by their values" if replaced else ""
            self._add_problem(f"{word} of up to {length} characters{how}, at most {MAX_INSTRUCTION}", "shorten it")
        elif self._total_length > MAX_INSTRUCTIONS:
            self._add_problem(f"more than {MAX_INSTRUCTIONS} characters of instructions up to here", "shorten the file")
        elif replaced and _REPLACEMENT.search(rest):
            self._add_problem("a variable with a replacement", "write the value itself")
        else:
            return True
        return False

    def _replaced_length(self, text: str) -> int:
        """Returns the most characters that a text has after the builder replaced its variables."""
        return len(text) + sum(self._lengths.get(name, _UNKNOWN_LENGTH) for name in _USE.findall(text))

    def _note_variable(self, name: str, length: int) -> None:
        self._lengths[name] = max(length, self._lengths.get(name, _UNKNOWN_LENGTH))

    def _read_environment(self, rest: str) -> None:
        """Notes the lengths of variables. The builder would take quotes and variables out of their names, too."""
        if (old := _OLD_ASSIGNMENT.fullmatch(rest)) is not None:
            self._note_variable(old[1], self._replaced_length(rest))
            return
        assignments = [_ASSIGNMENT.fullmatch(word) for word in _WORD.findall(rest)]
        if _WORD.sub("", rest).strip() or not assignments or None in assignments:
            self._add_problem("ENV in a form that is not supported", "write ENV NAME=value, with spaces in quotes")
        for found in filter(None, assignments):
            self._note_variable(found[1], self._replaced_length(found[0]))

    def _read_argument(self, rest: str) -> None:
        match = _ARGUMENT.fullmatch(rest)
        if match is None:
            self._add_problem(
                "ARG in a form that is not supported", "write ARG NAME=value, one a line, with spaces in quotes"
            )
            return
        written = match[2] or ""
        value = self._arguments_given.get(match[1], written[1:-1] if written[:1] in {'"', "'"} else written)
        self.arguments.setdefault(match[1], value)
        self._note_variable(match[1], max(len(value), self._replaced_length(rest)))
        if not self.stages:  # FROM can use only arguments that are declared before the first FROM
            self._global_arguments[match[1]] = value

    def _read_from(self, rest: str) -> None:
        match = _FROM.fullmatch(rest)
        if match is None:
            self._add_problem("FROM in a form that is not supported", "write FROM image, or FROM image AS name")
            return
        filled = _VARIABLE.sub(lambda variable: self._global_arguments.get(variable[1] or variable[2], ""), match[1])
        if not _REFERENCE.fullmatch(filled):
            self._add_problem(
                f"FROM {printable(match[1], 80)} names no image", "write its name, or an ARG with a default"
            )
        elif filled.lower() not in self.stages and filled != SCRATCH:
            self.bases.append(filled)
        self.stages.append((match[2] or "").lower())

    def _read_copy(self, word: str, rest: str) -> None:
        left = rest
        while left.startswith("--"):
            flag = _FLAG.match(left)
            if flag is None:
                self._add_problem(
                    f"{word} with a flag in a form that is not supported", "write --from=stage or --chown=1:1"
                )
                return
            if flag[1] == "from":
                self._check_stage(word, flag[2].lower())
            left = left[flag.end() :]
        if word == "ADD" and not self._network and not _PLAIN_FILES.fullmatch(left):
            self._add_problem("ADD of more than plain file names", "use COPY, with the file in the folder")

    def _check_stage(self, word: str, named: str) -> None:
        above = self.stages[:-1]
        if named not in {*above, *map(str, range(len(above)))}:
            self._add_problem(
                f"{word} --from={printable(named, 60)} is no stage above", "name a stage: FROM image AS name"
            )
