"""`sparring contest pictures`, and `submit` and `submission check` of archives (C1, C2)."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from orchestrator.cli.app import app

ORDER = (2, 0, 1)
"""In which `label.txt` lists the pictures: the first one of the task is 2.jpg."""


def jpeg(value: int) -> bytes:
    """Returns a picture of noise, in a file that nobody would write the same way from its pixels."""
    out = io.BytesIO()
    pixels = np.random.default_rng(value).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(out, "JPEG", quality=60, comment=b"as it was")
    return out.getvalue()


@pytest.fixture
def contest(tmp_path) -> Path:
    """Returns the file of a contest of three JPEG pictures in a zip."""
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for number in ORDER:
            archive.writestr(f"images/{number}.jpg", jpeg(number))
        archive.writestr("label.txt", "".join(f"{number}.jpg {number % 2}\n" for number in ORDER))
    body = {
        "sparring": 1,
        "contest": "cup",
        "title": "A cup",
        "format": "attack_set",
        "task": {"name": "small", "dataset": {"kind": "zip", "path": "set.zip"}},
        "baselines": [{"builtin": "defence_undefended"}],
    }
    path = tmp_path / "contest.yaml"
    path.write_text(json.dumps(body))
    return path


def sparring(*words: object, code: int = 0) -> str:
    """Runs a command and returns what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (words, result.output, result.exception)
    return result.output


def test_participants_download_the_very_files(contest, tmp_path) -> None:
    """They are numbered in the task's order, and handed back as they are they equal its pictures."""
    out = tmp_path / "pictures.zip"
    sparring("contest", "pictures", contest.parent, "--out", out)
    with zipfile.ZipFile(out) as archive:
        assert [archive.read(f"images/{position}.jpg") for position in range(3)] == [jpeg(number) for number in ORDER]
        assert archive.read("label.txt").decode().split() == ["0.jpg", "0", "1.jpg", "0", "2.jpg", "1"]
    said = sparring("submission", "check", out, "--contest", contest)
    assert "pictures 3, 0 of them changed" in said
    assert "rights" not in said  # nothing of it is run


def test_hidden_pictures_of_a_tournament_are_not_written(tmp_path) -> None:
    """Teams submit programs there, and nobody may see the task's pictures or labels."""
    sparring("contest", "init", tmp_path / "cup")
    said = sparring("contest", "pictures", tmp_path / "cup", "--out", tmp_path / "out.zip", code=2)
    assert "of the format 'tournament', in which nobody may see the task's pictures" in said
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("missing.zip", "missing.zip", 2),
        ("folder", "folder is a folder; pack it, and give the path of the archive", 2),
        ("contest.yaml", "archive: no zip; pack it with", 1),
    ],
)
def test_what_is_no_archive_is_said_in_one_line(contest, tmp_path, name, words, code) -> None:
    """Nobody who has pictures is told of manifests and backends; nor is who hands them in."""
    (tmp_path / "folder").mkdir()
    cup = tmp_path / "cup"
    cup.mkdir()
    (cup / "contest.yaml").write_text(contest.read_text().replace("set.zip", "../set.zip"))
    sparring("contest", "open", cup)
    sparring("team", "add", cup, "Reds", "--member", "red@example.org:Red")
    for command in (("submission", "check", "--contest", contest), ("submit", "--team", "Reds", cup)):
        said = " ".join(sparring(*command, tmp_path / name, code=code).split())
        assert words in said
        assert "manifest" not in said
        assert "backend" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--save", "x"], "--save would be ignored: no program plays where pictures are submitted; leave it out"),
        (["--side", "attack", "--access", "scores"], "--side and --access would be ignored: no program plays"),
    ],
)
def test_options_of_programs_are_refused_for_pictures(contest, tmp_path, words, said) -> None:
    """Nothing would be written or asked, and whoever gives such an option expects it."""
    printed = sparring("submission", "check", tmp_path / "my.zip", "--contest", contest, *words, code=2)
    assert said in " ".join(printed.split())
    assert not (tmp_path / "x").exists()


def test_pictures_without_their_contest_need_it(tmp_path) -> None:
    """The contest that is checked against by default takes programs."""
    (tmp_path / "my.zip").write_bytes(b"PK")
    assert "for an archive of pictures give --contest, too" in " ".join(
        sparring("submission", "check", tmp_path / "my.zip", code=2).split()
    )


def test_the_copy_for_participants_has_no_hidden_model(contest, tmp_path) -> None:
    """It is a contest file all the same, with a warning of what its round lacks; with a model too many it is none."""
    sparring("contest", "pictures", contest.parent, "--out", tmp_path / "pictures.zip")
    body = json.loads(contest.read_text())
    model = body.pop("baselines")
    body["task"]["dataset"] = {"kind": "zip", "path": "pictures.zip"}
    copy = tmp_path / "copy.yaml"
    copy.write_text(json.dumps(body))
    checked = " ".join(sparring("contest", "check", copy).split())
    assert "fine, with" in checked
    assert "could not play its round board: one hidden model is needed (C3), and there is none" in checked
    assert "only the copy for participants has none" in checked
    assert "it would be received" in sparring("submission", "check", tmp_path / "pictures.zip", "--contest", copy)
    copy.write_text(json.dumps(body | {"baselines": [*model, {"builtin": "defence_bit_depth"}]}))
    assert "one hidden model is needed (C3), and there are 2" in sparring("contest", "check", copy, code=1)


def test_a_contest_is_not_opened_for_participants(contest) -> None:
    """What organizers opened needs its hidden model."""
    body = json.loads(contest.read_text())
    sparring("contest", "open", contest.parent)
    contest.write_text(json.dumps({key: value for key, value in body.items() if key != "baselines"}))
    assert "there is none" in sparring("contest", "check", contest, code=1)
