"""Which image was built from which folder, by our own record."""

from orchestrator.intake.build_record import BuildRecord

SOURCE, OTHER = ("sha256:" + digit * 64 for digit in "12")
FIRST, SECOND = ("sha256:" + digit * 64 for digit in "ab")


def test_a_build_is_found_again(tmp_path) -> None:
    """By files and flavour, the latest; and by the image, with all files that it was built from."""
    record = BuildRecord(tmp_path / "built")
    assert (record.image_of(SOURCE, "cpu"), record.sources_of(FIRST)) == ("", frozenset())
    record.add(SOURCE, "cpu", FIRST)
    record.add(OTHER, "cpu", FIRST)
    assert (record.image_of(SOURCE, "cpu"), record.image_of(SOURCE, "cuda")) == (FIRST, "")
    assert record.sources_of(FIRST) == {SOURCE, OTHER}
    record.add(SOURCE, "cpu", SECOND)
    assert (record.image_of(SOURCE, "cpu"), record.sources_of(FIRST)) == (SECOND, {OTHER})


def test_what_cannot_be_read_is_no_note(tmp_path) -> None:
    """A damaged note, or one under another's name, proves nothing: the folder is built again."""
    record = BuildRecord(tmp_path / "built")
    record.add(SOURCE, "cpu", FIRST)
    [path] = record.folder.iterdir()
    path.rename(path.with_name(f"{'2' * 64}-cpu.json"))
    assert record.image_of(OTHER, "cpu") == ""
    path.write_text("{")
    assert record.image_of(SOURCE, "cpu") == ""
    assert record.sources_of(SECOND) == frozenset()


def test_it_lies_where_the_user_keeps_state(monkeypatch, tmp_path) -> None:
    """XDG_STATE_HOME says where, if it is an absolute path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert BuildRecord.of_user().folder == tmp_path / "sparring" / "built"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert BuildRecord.of_user().folder == tmp_path / ".local" / "state" / "sparring" / "built"
