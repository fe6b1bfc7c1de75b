"""A zip of a submission's folder: its list and its headers agree, or it is refused."""

import io
import shutil
import stat
import struct
import subprocess
import zipfile

import pytest

from orchestrator.intake.archive import ArchiveBounds

UNIX = 3


def info(name: str, mode: int = 0, **more: object) -> zipfile.ZipInfo:
    """Returns a member as a Unix system writes it."""
    found = zipfile.ZipInfo(name)
    found.create_system, found.external_attr = UNIX, mode << 16
    for key, value in more.items():
        setattr(found, key, value)
    return found


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("above", ["", "entry/", "./entry/"])
def test_a_plain_zip_is_read(make, read, method, above) -> None:
    """Files come out as they went in, from the top or from the only folder there."""
    assert read(make.zip({above + name: content for name, content in make.ordinary.items()}, method)) == make.ordinary


def test_a_zip_written_to_a_pipe_is_read(make, read) -> None:
    """Sizes may follow the bytes, as they do where the writer could not go back."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    made = Pipe()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in make.ordinary.items():
            target.writestr(name, content)
    assert b"PK\x07\x08" in made.getvalue()
    assert read(made.getvalue()) == make.ordinary


@pytest.mark.skipif(shutil.which("zip") is None, reason="there is no zip program here")
def test_what_zip_writes_is_read(kept, read, make) -> None:
    """Info-ZIP's own output is fine."""
    subprocess.run(["zip", "-qr", "made.zip", "entry"], cwd=kept.parent, check=True)
    assert read((kept.parent / "made.zip").read_bytes()) == make.ordinary


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("/etc/passwd", "an absolute name"),
        ("../escaped", "leads out of its folder"),
        ("a\\..\\..\\b", "a backslash"),
        ("c:/x", "an absolute name"),
        ("Player.PY", "in case or accents only"),
        ("player.py/x", "a file inside a file"),
        ("a\x1bb", "cannot be printed"),
    ],
)
def test_odd_names_are_refused(make, refused, name, what) -> None:
    """Each name that could lead elsewhere, or mean another file elsewhere, is named with what is wrong."""
    [problem] = refused(make.zip(make.ordinary | {name: b"x"}))
    assert what in problem


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (stat.S_IFLNK, "a symbolic link"),
        (stat.S_IFIFO, "a FIFO"),
        (stat.S_IFCHR, "a character device"),
        (stat.S_IFBLK, "a block device"),
        (stat.S_IFSOCK, "a member of an unknown kind"),
    ],
)
def test_what_is_no_file_is_refused(make, refused, kind, what) -> None:
    """Links and special files are refused by name."""
    content = b"/etc/passwd" if kind == stat.S_IFLNK else b""
    assert what in refused(make.zip({**make.ordinary, info("odd", kind | 0o644): content}))[-1]


def test_a_name_twice_is_refused(make, refused) -> None:
    """The second of two members of one name is named."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = make.zip({**make.ordinary, info("player.py"): b"other"})
    assert refused(data) == ["player.py: a name that is there already"]


def parts(data: bytes) -> tuple[int, int]:
    """Returns where the list begins, and where its end mark is."""
    end = data.rfind(b"PK\x05\x06")
    return struct.unpack_from("<L", data, end + 16)[0], end


def changed(data: bytes, at: int, value: bytes) -> bytes:
    """Returns the bytes with some of them replaced."""
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        (6, b"\x01\x00", "contradicts the list"),
        (8, b"\x00\x00", "contradicts the list"),
        (14, b"abcd", "contradicts the list"),
        (22, b"\xff\x00\x00\x00", "contradicts the list"),
        (30, b"X", "contradicts the list"),
        (0, b"PK\x07\x08", "without a header"),
    ],
)
def test_a_header_that_contradicts_the_list_is_refused(make, refused, at, value, what) -> None:
    """Flags, method, checksum, size and name stand in two places, and have to be the same."""
    data = changed(make.zip(make.ordinary), at, value)
    assert what in refused(data if at else b"PK" + data[2:])[-1]


@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        (8, b"\x01\x00", "encrypted"),
        (8, b"\x40\x00", "encrypted"),
        (10, b"\x0e\x00", "compression method 14"),
        (34, b"\x01\x00", "a split or a 64-bit zip"),
        (24, b"\xff\xff\xff\xff", "a split or a 64-bit zip"),
        (42, b"\x01\x00\x00\x00", "overlap"),
        (46, b"\xe9", "encoding is not said"),
        (46, b"\x00", "holds a NUL"),
        (0, b"XX", "cut short"),
    ],
)
def test_odd_lists_are_refused(make, refused, at, value, what) -> None:
    """Encrypted, split, 64-bit and overlapping members are refused, and methods that are not read here."""
    data = make.zip(make.ordinary)
    assert what in refused(changed(data, parts(data)[0] + at, value))[-1]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda data: data + b"x", "not at its end"),
        (lambda data: b"PK\x03\x04" + bytes(30) + data, "not at its end"),
        (lambda data: data[:-1], "cut short|no list|not at its end"),
        (lambda data: data[: len(data) // 2], "no list"),
        (lambda data: changed(data, parts(data)[1] + 10, b"\xff\xff"), "a 64-bit zip"),
        (lambda data: changed(data, parts(data)[1] + 4, b"\x01\x00"), "a part of a split zip"),
        (lambda data: changed(data, parts(data)[1] + 8, b"\x01\x00\x01\x00"), "longer than its members"),
        (lambda data: changed(data, parts(data)[1] + 8, b"\x03\x00\x03\x00"), "cut short"),
        (lambda data: changed(data, parts(data)[1] + 8, b"\x00\x00\x00\x00"), "longer than its members"),
    ],
)
def test_an_end_that_does_not_fit_is_refused(make, refused, edit, what) -> None:
    """The end mark says how many members there are and where their list lies, exactly."""
    [problem] = refused(edit(make.zip(make.ordinary)))
    assert any(one in problem for one in what.split("|"))


def test_bytes_between_members_are_refused(make, refused) -> None:
    """What no member owns may be what another reader takes for a member."""
    data = make.zip(make.ordinary)
    begin, end = parts(data)
    moved = data[:begin] + bytes(100) + data[begin:]
    moved = changed(moved, end + 100 + 16, struct.pack("<L", begin + 100))
    assert refused(moved)[-1].endswith("members that overlap, or bytes that no member owns")


@pytest.mark.parametrize("kind", [0x7075, 0x0001])
def test_a_second_name_or_size_is_refused(make, refused, kind) -> None:
    """An extra field that says another name or size is not read, and not ignored."""
    extra = struct.pack("<2H", kind, 8) + bytes(8)
    assert "a second name or size" in refused(make.zip({**make.ordinary, info("x", extra=extra): b"x"}))[-1]


def wide(make, *, twice: bool, size: int | None = None, packed: int | None = None) -> bytes:
    """Returns a zip of which a header has its sizes, or others, in 64 bits, as NumPy writes it.

    `twice`: whether it has them in 32 bits, too, as by Python 3.11.2.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for name, content in make.ordinary.items():
            with target.open(name, "w", force_zip64=True) as member:
                member.write(content)
    data, length = made.getvalue(), len(make.ordinary["submission.yaml"])
    at = data.index(struct.pack("<2H2Q", 1, 16, length, length)) + 4
    data = changed(data, data.rindex(b"PK\3\4", 0, at) + 18, struct.pack("<2L", *(length if twice else 2**32 - 1,) * 2))
    return changed(data, at, struct.pack("<2Q", length if size is None else size, length if packed is None else packed))


@pytest.mark.parametrize("twice", [False, True])
def test_sizes_in_64_bits_may_say_what_the_list_says(make, read, twice) -> None:
    """A writer that did not know how large a file gets leaves room for any size."""
    assert read(wide(make, twice=twice)) == make.ordinary


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("lie", [{"size": 0}, {"size": 2**63}, {"packed": 0}, {"packed": 2**40}])
def test_sizes_in_64_bits_that_contradict_the_list_are_refused(make, refused, lie, twice) -> None:
    """The list and the header have to say the same size, however long its number is."""
    assert "contradicts the list" in refused(wide(make, twice=twice, **lie))[-1]


def test_a_header_without_sizes_is_refused(make, refused) -> None:
    """A header that points to its extra field for the sizes has to have them there."""
    data = make.zip(make.ordinary)
    assert "a header without sizes" in refused(changed(data, 18, b"\xff" * 8))[-1]


def test_a_damaged_file_is_refused(make, refused) -> None:
    """Bytes that do not have the checksum of the list are refused."""
    data = make.zip(make.ordinary, zipfile.ZIP_STORED)
    at = data.index(b"print")
    assert refused(changed(data, at, b"P")) == ["player.py: a file that is not what the list says of it"]


@pytest.mark.slow
def test_a_bomb_ends_early(make, refused) -> None:
    """A member of a gigabyte of zeros ends the reading long before it is out."""
    [problem] = refused(make.zip({**make.ordinary, "zeros": bytes(200 * 1024**2)}))
    assert "a bomb" in problem
    assert int(problem.split(" bytes out of ")[0].rsplit(" ", 1)[1]) < 40 * 1024**2


def test_members_are_bounded_before_they_are_listed(make, refused) -> None:
    """A list of more members than allowed is not read."""
    assert refused(make.zip(make.ordinary), ArchiveBounds(members=1)) == ["archive: 2 members, at most 1"]
