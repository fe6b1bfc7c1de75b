"""A tar or tar.gz of a submission's folder: what is read, and what is refused, by name."""

import gzip
import io
import subprocess
import tarfile

import pytest

from orchestrator.errors import UsageError
from orchestrator.intake import archive
from orchestrator.intake.archive import ArchiveBounds

LONG = "deeply/" * 8 + "n" * 100 + ".py"


def block(name: bytes, kind: bytes = b"0", size: int = 0, magic: bytes = b"ustar\x0000", **at: bytes) -> bytes:
    """Returns a header written by hand; `at` replaces bytes, as `at_124=b"..."`."""
    header = bytearray(512)
    for place, value in {0: name, 100: b"0000644", 124: b"%011o" % size, 156: kind, 257: magic}.items():
        header[place : place + len(value)] = value
    for key, value in at.items():
        place = int(key.removeprefix("at_"))
        header[place : place + len(value)] = value
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % sum(header)
    return bytes(header)


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """Returns an extended header."""
    data = b""
    for key, value in records:
        body = b" " + key + b"=" + value + b"\n"
        length = next(n for n in range(len(body), len(body) + 9) if n == len(body) + len(b"%d" % n))
        data += b"%d" % length + body
    return block(b"x", kind, len(data)) + data + bytes(-len(data) % 512)


def file(name: bytes, content: bytes = b"x") -> bytes:
    """Returns a plain member."""
    return block(name, b"0", len(content)) + content + bytes(-len(content) % 512)


@pytest.fixture
def begun(make) -> bytes:
    """An ordinary submission's tar without its end."""
    return b"".join(file(name.encode(), content) for name, content in make.ordinary.items())


END = bytes(1024)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("press", [bytes, gzip.compress])
def test_a_plain_tar_is_read(make, read, form, press) -> None:
    """Files come out as they went in, in every common format, compressed or not."""
    files = make.ordinary | ({} if form == tarfile.USTAR_FORMAT else {LONG: b"long", "ü.py": b"umlaut"})
    assert read(press(make.tar(files, form))) == files


def test_a_folder_above_is_passed(make, read) -> None:
    """The manifest may lie in the only folder at the top."""
    files = {f"./entry/{name}": content for name, content in make.ordinary.items()}
    assert read(make.tar({"./": make.special(b"5"), **files})) == make.ordinary


@pytest.mark.parametrize("options", [(), ("--format=posix",), ("--format=gnu", "-b", "64")], ids=str)
def test_what_gnu_tar_writes_is_read(kept, read, make, options) -> None:
    """GNU tar's own output is fine, its padding and its extended headers included."""
    done = subprocess.run(["tar", *options, "-cz", "-C", str(kept.parent), "entry"], capture_output=True, check=True)
    assert read(done.stdout) == make.ordinary


def test_what_git_archive_writes_is_read(begun, read, make) -> None:
    """A global header that only comments is passed over."""
    assert read(pax((b"comment", b"6f1c" * 10), kind=b"g") + begun + END) == make.ordinary


def test_what_tools_leave_is_left_out(make, tmp_path) -> None:
    """.git, caches and credentials are passed over, links in them too, and said so."""
    more = {
        "e/.git/config": b"x",
        "e/.venv/bin/python": make.special(tarfile.SYMTYPE, "/usr/bin/python"),
        "e/.env": b"s",
    }
    path = tmp_path / "upload"
    path.write_bytes(make.tar({f"e/{name}": content for name, content in make.ordinary.items()} | more))
    with archive.open_archive(path, tmp_path) as unpacked:
        assert unpacked.left_out == ("e/.env", "e/.git", "e/.venv")
        assert {found.name for found in unpacked.source.iterdir()} == set(make.ordinary)


def test_modes_are_ours(make, tmp_path) -> None:
    """Set-id and write bits are dropped; what its owner could execute can be executed."""
    path = tmp_path / "upload"
    path.write_bytes(
        make.tar(make.ordinary | {"run": make.special(b"0", mode=0o6777), "data": make.special(b"0", mode=0)})
    )
    with archive.open_archive(path, tmp_path) as unpacked:
        modes = {found.name: found.stat().st_mode & 0o7777 for found in unpacked.source.iterdir()}
    assert {mode & ~0o755 for mode in modes.values()} == {0}
    assert modes["run"] & 0o100
    assert not modes["data"] & 0o111


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("/etc/passwd", "an absolute name"),
        ("../escaped", "leads out of its folder"),
        ("a/../../escaped", "leads out of its folder"),
        ("a\\..\\b", "a backslash"),
        ("C:/x", "an absolute name"),
        ("a//b", "an empty part"),
        ("a\x07b", "cannot be printed"),
        ("a\u202eb", "cannot be printed"),
        ("a\nb", "cannot be printed"),
        ("a" * 241, "241 characters, at most 240"),
        ("a/" * 17 + "b", "18 folders deep, at most 16"),
        ("PLAYER.py", "differs from 'player.py' in case or accents only"),
        ("player.py/x", "a file inside a file"),
        ("player.py", "there already"),
    ],
)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_odd_names_are_refused(make, refused, name, what, form) -> None:
    """Each name that could lead elsewhere, or mean another file elsewhere, is named with what is wrong."""
    whole = make.tar(make.ordinary, form).rstrip(b"\0")
    [problem] = refused(whole + bytes(-len(whole) % 512) + make.tar({name: b"x"}, form))
    assert what in problem


def test_names_that_are_no_text_are_refused(begun, refused) -> None:
    """A name in another encoding is not guessed."""
    assert refused(begun + file(b"caf\xe9.py") + END) == ["caf\ufffd.py: a name that is not UTF-8"]


def test_accents_written_twice_are_one_name(make, refused) -> None:
    """Two spellings of one letter are one file on some systems, so the second is refused."""
    [problem] = refused(make.tar(make.ordinary | {"\u00e9.py": b"1", "e\u0301.py": b"2"}))
    assert "in case or accents only" in problem


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a character device"),
        (tarfile.BLKTYPE, "a block device"),
        (tarfile.FIFOTYPE, "a FIFO"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (tarfile.CONTTYPE, "a member of the kind b'7'"),
        (b"D", "a member of the kind b'D'"),
    ],
)
def test_what_is_no_file_is_refused(begun, refused, kind, what) -> None:
    """Links, devices, FIFOs and kinds that nobody should send are refused by name."""
    [problem] = refused(begun + block(b"odd", kind, at_157=b"player.py") + END)
    assert what in problem


def test_all_problems_come_at_once(make, refused) -> None:
    """Every odd member is named, and nothing is written after the first."""
    odd = {"../up": b"x", "link": make.special(tarfile.SYMTYPE, "/"), "SUBMISSION.yaml": b"x"}
    assert [problem.split(":")[0] for problem in refused(make.tar(make.ordinary | odd))] == list(odd)


def test_many_problems_are_counted(make, refused) -> None:
    """Twenty problems are listed; of the rest there is the number."""
    problems = refused(make.tar({f"../{number}": b"" for number in range(50)}))
    assert len(problems) == 21
    assert problems[-1] == "archive: and 30 more problems like these"


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        (pax((b"path", b"a"), (b"path", b"b")) + file(b"c"), "a record twice"),
        (pax((b"path", b"a")) + pax((b"path", b"b")) + file(b"c"), "two extended headers"),
        (pax((b"path", b"a\0b")) + file(b"c"), "holds a NUL"),
        (pax((b"path", b"")) + file(b"c"), "is empty or holds a NUL"),
        (pax((b"size", b"5")) + file(b"c"), "1 bytes by its header and 5 by its extended header"),
        (pax((b"size", b"-5")) + file(b"c"), "a size that is not a number"),
        (pax((b"GNU.sparse.major", b"1")) + file(b"c"), "the record 'GNU.sparse.major'"),
        (pax((b"hdrcharset", b"latin1")) + file(b"c"), "another encoding"),
        (pax((b"path", b"a"), kind=b"g") + file(b"c"), "an extended header for all members"),
        (pax((b"path", b"a")), "an extended header without a member"),
        (block(b"x", b"x", 70_000) + bytes(70_144), "an extended header of 70000 bytes, at most 65536"),
        (block(b"x", b"x", 5) + b"5 a=b".ljust(512, b"\0") + file(b"c"), "not made of records"),
        (
            block(b"x", b"L", 2) + b"a\0".ljust(512, b"\0") + pax((b"path", b"b")) + file(b"c"),
            "in GNU's and in POSIX's way",
        ),
        (block(b"c", b"5", 512) + bytes(512), "a folder of 512 bytes"),
        (block(b"c", magic=b"tar!!\0"), "neither POSIX's nor GNU's"),
        (block(b"c", at_124=b"00000000zzz"), "a header with a field that is not a number"),
        (block(b"c", at_124=b"\xff" * 12), "negative or too large"),
        (block(b"c")[:-1] + b"x", "checksum is wrong"),
        (bytes(512) + file(b"c"), "a lone block of zeros"),
        (END + file(b"c"), "bytes after its end mark"),
        (END + bytes(2 * 1024**2), "bytes after its end mark"),
    ],
)
def test_two_meanings_are_none(begun, refused, tail, what) -> None:
    """A header that readers could take differently ends the reading."""
    assert what in refused(begun + tail + END)[-1]


@pytest.mark.parametrize("cut", [512, 700, 1100, 1536])
def test_a_short_end_is_noticed(begun, refused, cut) -> None:
    """A tar that was cut short anywhere is refused, gzipped or not."""
    whole = begun + END
    assert "it ends" in refused(whole[:cut])[-1]
    [problem] = refused(gzip.compress(whole)[: -cut // 50])
    assert "without an end" in problem


@pytest.mark.slow
def test_a_bomb_ends_early(begun, refused) -> None:
    """Zeros by the gigabyte are refused once they are a hundred times what came in, not when they are all out."""
    made = io.BytesIO()
    with gzip.open(made, "wb") as target:
        target.write(begun)
        target.write(block(b"zeros", b"0", 1024**3))
        for _ in range(200):
            target.write(bytes(1024**2))
    [problem] = refused(made.getvalue())
    assert "more than 100 times as many: a bomb" in problem
    assert int(problem.split(" bytes out of ")[0].rsplit(" ", 1)[1]) < 40 * 1024**2


@pytest.mark.parametrize(
    ("bounds", "what"),
    [
        (ArchiveBounds(source=50), "more than 50 bytes in source files"),
        (ArchiveBounds(members=1), "more than 1 members"),
        (ArchiveBounds(source=0, image=0, members=0), "more than"),
    ],
)
def test_what_is_too_much_is_refused(make, refused, bounds, what) -> None:
    """Bytes and members are bounded while they come."""
    assert what in refused(make.tar(make.ordinary), bounds)[-1]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "neither a tar, a tar.gz nor a zip"),
        (b"\xfd7zXZ\0" + bytes(600), "a xz archive"),
        (b"BZh9" + bytes(600), "a bzip2 archive"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), "a zstd archive"),
        (gzip.compress(b"no tar" * 200, mtime=0), "neither POSIX's nor GNU's"),
        (gzip.compress(END, mtime=0)[:-8] + bytes(8), "cannot be inflated"),
        (gzip.compress(END, mtime=0) + b"more", "bytes after the end of what is compressed"),
        (END, "neither a tar"),
    ],
)
def test_other_files_are_told_apart(refused, data, what) -> None:
    """What is no tar, tar.gz or zip is refused with what it is, where that is known."""
    assert what in refused(data)[0]


def test_an_image_is_no_submission(make, refused) -> None:
    """What `docker save` wrote is refused with the way to pack a submission."""
    assert refused(make.tar({"manifest.json": b"[]"})) == ["archive: this is an image, not a submission"]


def test_a_submission_has_a_manifest(make, refused) -> None:
    """Without submission.yaml at the top or in the only folder there, nothing is taken."""
    assert refused(make.tar({"a/b/submission.yaml": b""})) == ["archive: no submission.yaml in it"]


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    """A folder, or nothing at all, is a mistake of whoever typed it."""
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UsageError), archive.open_archive(path, tmp_path):
            pass
