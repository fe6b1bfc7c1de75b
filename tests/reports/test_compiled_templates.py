"""Compiled templates are kept beside Python's bytecode."""

import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from orchestrator import reports

TEXT = "{{ 2 }} pages"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Returns the folder of the reports' bytecode, another one than that of this checkout."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return Path(cache_from_source(reports.__file__)).parent


def rendered(text: str = TEXT) -> str:
    """Returns what a template gives in an environment of its own, as in a process of its own."""
    return reports.environment(DictLoader({"pages": text})).get_template("pages").render()


def test_a_template_is_compiled_once(folder, monkeypatch) -> None:
    """The next process reads what the first compiled."""
    folder.mkdir(parents=True)
    assert rendered() == "2 pages"
    monkeypatch.setattr(Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
    assert rendered() == "2 pages"


@pytest.mark.parametrize("changed", ["text", "jinja", "module"])
def test_a_change_compiles_it_again(folder, monkeypatch, changed) -> None:
    """That of its text does, and that of what compiles it."""
    folder.mkdir(parents=True)
    rendered()
    compiled = []
    compile_template = Environment.compile

    def compile_and_count(*args, **kwargs):
        compiled.append(args)
        return compile_template(*args, **kwargs)

    monkeypatch.setattr(Environment, "compile", compile_and_count)
    if changed == "jinja":
        monkeypatch.setattr(reports, "version", lambda _: "3.99")
    if changed == "module":
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: "trim_blocks=False")
    assert rendered("{{ 3 }} pages" if changed == "text" else TEXT) == ("3 pages" if changed == "text" else "2 pages")
    assert len(compiled) == 1


@pytest.mark.parametrize("damaged", [b"", b"j2", b"\0" * 99])
def test_a_damaged_file_is_compiled_again(folder, damaged) -> None:
    """Of a file that a full disk cut, or that is no bytecode, nothing is used."""
    folder.mkdir(parents=True)
    rendered()
    [kept] = folder.iterdir()
    kept.write_bytes(damaged)
    assert rendered() == "2 pages"
    assert kept.read_bytes() != damaged


def test_nothing_is_kept_where_python_keeps_nothing(folder, monkeypatch) -> None:
    """A folder that is missing is not made, and no bytecode is written where Python was told to write none."""
    assert rendered() == "2 pages"
    assert not folder.exists()
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered() == "2 pages"
    assert not [*folder.iterdir()]
