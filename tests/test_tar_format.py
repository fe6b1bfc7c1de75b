"""The tar format under hostile bytes: both readers end in their own errors, hold little, and read alike."""

import io
import itertools
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import tar_format
from orchestrator.archives.members import PIECE_BYTES, MalformedArchive, Member, MemberKind
from orchestrator.intake.tar_stream import TarStream
from orchestrator.sandboxes.image_files.mount_points import FileKind
from orchestrator.sandboxes.image_files.tar_headers import BoundedStream, StreamBoundError, TarMember, read_members
from orchestrator.tar_format import BLOCK_BYTES, TarDefect, TarDefectError

INPUTS = 10_000 if os.environ.get("SPARRING_SOAK") else 200
MIB = 1024**2
KINDS = {
    tar_format.FILE: MemberKind.FILE,
    tar_format.OLD_FILE: MemberKind.FILE,
    tar_format.HARD_LINK: MemberKind.HARD_LINK,
    tar_format.LINK: MemberKind.LINK,
    tar_format.CHARACTER_DEVICE: MemberKind.CHARACTER_DEVICE,
    tar_format.FOLDER: MemberKind.FOLDER,
    tar_format.FIFO: MemberKind.FIFO,
}
LINKS = {MemberKind.LINK, MemberKind.HARD_LINK}


def fixed(block: bytes) -> bytes:
    """Returns a header with the checksum that it should have."""
    changed = bytearray(block)
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed)
    return bytes(changed)


def filled(content: bytes) -> bytes:
    """Returns a content with its padding."""
    return content + bytes(-len(content) % BLOCK_BYTES)


def header(kind: bytes, name: bytes, size: bytes, magic: bytes, link: bytes = b"", prefix: bytes = b"") -> bytes:
    """Returns a header written by hand, its numbers as `tarfile` reads them too."""
    block = bytearray(BLOCK_BYTES)
    fields = {0: name, 100: b"0000755\0", 108: b"0\0", 116: b"0\0", 124: size, 136: b"0\0", 156: kind, 157: link}
    for at, value in (fields | {257: magic, 345: prefix}).items():
        block[at : at + len(value)] = value
    return fixed(bytes(block))


def record(key: bytes, value: bytes) -> bytes:
    """Returns one record of an extended header."""
    rest = b" " + key + b"=" + value + b"\n"
    return next(b"%d" % n + rest for n in itertools.count(len(rest)) if n == len(rest) + len(b"%d" % n))


def extension(kind: bytes, data: bytes, magic: bytes) -> bytes:
    """Returns an extended header."""
    return header(kind, b"x", b"%011o" % len(data), magic) + filled(data)


@st.composite
def members(draw) -> list[bytes]:
    """A member in one of the ways in which tars say names, sizes and links: each header with its content."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    magic = draw(st.sampled_from([tar_format.POSIX, tar_format.GNU]))
    content = draw(st.binary(max_size=1100)) if KINDS[kind] is MemberKind.FILE else b""
    name = draw(st.sampled_from([b"a", b"./b", b"/c/d", "ü".encode(), b"caf\xe9", b"n" * 100]))
    link = draw(st.sampled_from([b"a", b"../b", b"l" * 100])) if KINDS[kind] in LINKS else b""
    number = b"%011o\0" % len(content) if draw(st.booleans()) else b"\x80" + len(content).to_bytes(11, "big")
    ahead, prefix = [], b""
    match draw(st.sampled_from(["short", "prefix", "long", "records", "global"])):
        case "prefix" if magic == tar_format.POSIX:
            prefix = draw(st.sampled_from([b"pre", b"p" * 155]))
        case "long":
            long = draw(st.sampled_from([b"m" * 300, b"e/f"])) + b"\0"
            ahead = [extension(tar_format.LONG_NAME, long, tar_format.GNU)]
            if link:
                ahead.append(extension(tar_format.LONG_LINK, b"k" * 150 + b"\0", tar_format.GNU))
        case "records":
            said = {b"path": b"q" * 200, b"mtime": b"1.5", b"SCHILY.xattr.user.x": b"\n9 size=7\n"}
            said |= ({b"linkpath": b"r" * 200} if link else {}) | ({b"size": b"%d" % len(content)} if content else {})
            keys = draw(st.lists(st.sampled_from(sorted(said)), min_size=1, unique=True))
            records = b"".join(record(key, said[key]) for key in keys)
            ahead = [extension(tar_format.RECORDS, records, tar_format.POSIX)]
        case "global":
            ahead = [extension(tar_format.GLOBAL_RECORDS, record(b"comment", b"6f1c"), tar_format.POSIX)]
    return [*ahead, header(kind, name, number, magic, link, prefix) + filled(content)]


@st.composite
def archives(draw) -> bytes:
    """Members and an end; now and then a header before the last member is lost, there twice, or moved."""
    parts = list(itertools.chain(*draw(st.lists(members(), min_size=1, max_size=5))))
    if draw(st.integers(0, 3)) == 0:
        rearrange(draw, parts)
    last = header(tar_format.FILE, b"z", b"%011o" % 1, tar_format.POSIX) + filled(b"z")
    return b"".join(parts) + last + bytes(2 * BLOCK_BYTES)


def rearrange(draw, parts: list[bytes]) -> None:
    """Takes one part away, or puts it to another place too or instead."""
    at, to = draw(st.integers(0, len(parts) - 1)), draw(st.integers(0, len(parts) - 1))
    match draw(st.sampled_from(["lose", "double", "move"])):
        case "lose":
            del parts[at]
        case "double":
            parts.insert(to, parts[at])
        case _:
            parts.insert(to, parts.pop(at))


@st.composite
def changed_archives(draw) -> bytes:
    """An archive with other bytes or blocks, or cut short; the checksums of its headers are mostly right."""
    data = bytearray(draw(archives()))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        begin = at - at % BLOCK_BYTES
        data[at] = draw(st.one_of(st.integers(0, 255), st.sampled_from(b"xgLKS0157\0\x80\xff ")))
        if draw(st.integers(0, 3)) and any(data[begin : begin + BLOCK_BYTES]):
            data[begin : begin + BLOCK_BYTES] = fixed(data[begin : begin + BLOCK_BYTES])
    blocks = [bytes(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES)]
    if draw(st.integers(0, 3)) == 0:
        rearrange(draw, blocks)
    return b"".join(blocks)[: draw(st.integers(0, len(data))) if draw(st.integers(0, 5)) == 0 else None]


@dataclass
class Reading:
    """What a reader made of an archive: its members, each with its content, and the error with which it stopped."""

    found: list[tuple[Member | TarMember, bytes]]
    refusal: Exception | None = None


def strictly(data: bytes) -> Reading:
    """Reads as submissions are read."""
    source, made = io.BytesIO(data), Reading([])

    def read(count: int) -> bytes:
        assert 0 <= count <= PIECE_BYTES
        return source.read(count)

    stream = TarStream(read)
    try:
        made.found.extend((member, b"".join(stream.content())) for member in stream)
    except MalformedArchive as error:
        made.refusal = error
    return made


def as_layer(data: bytes) -> Reading:
    """Reads as layers of images are read, in pieces that fit no boundary."""
    stream, made = BoundedStream((data[at : at + 700] for at in range(0, len(data), 700)), 64 * MIB, 60.0), Reading([])
    try:
        for member in read_members(stream):
            size = member.size if member.kind is FileKind.FILE and not member.hard else 0
            made.found.append((member, stream.take(min(size, len(data)))))
    except StreamBoundError as error:
        made.refusal = error
    except ValueError as error:
        made.refusal = error
    return made


def with_tarfile(data: bytes) -> list[tuple[bytes, MemberKind, int, bytes, bytes]]:
    """Returns what Python's own reader finds: names, kinds, sizes, links, contents."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
        for each in archive:
            inside = archive.extractfile(each) if each.isreg() else None
            name, link = (text.encode("utf-8", "surrogateescape") for text in (each.name, each.linkname))
            kind = KINDS[each.type]
            found.append((name, kind, each.size, link if kind in LINKS else b"", inside.read() if inside else b""))
    return found


@pytest.mark.slow
@settings(max_examples=INPUTS, deadline=None)
@given(data=archives())
def test_what_is_accepted_is_what_tarfile_reads(data) -> None:
    """The strict reader finds the members that Python's own finds, with the same contents, or refuses."""
    read = strictly(data)
    if not read.refusal:
        assert with_tarfile(data) == [
            (each.name.rstrip(b"/"), each.kind, each.size, each.link if each.kind in LINKS else b"", content)
            for each, content in read.found
        ]


@pytest.mark.slow
@settings(max_examples=INPUTS, deadline=None)
@given(data=st.one_of(archives(), changed_archives()))
def test_what_both_accept_they_read_alike(data) -> None:
    """What is no submission may be a layer; what is one is read the same there, or refused for two known reasons."""
    strict, layer = strictly(data), as_layer(data)
    if strict.refusal:
        return
    assert not layer.refusal
    for (ours, content), (theirs, same) in zip(strict.found, layer.found, strict=True):
        assert ours.name.removeprefix(b"./").lstrip(b"/") == theirs.name
        assert (ours.size, ours.mode, content) == (theirs.size, theirs.mode & 0o7777, same)
        assert (ours.kind is MemberKind.LINK) == (theirs.kind is FileKind.LINK)
        assert theirs.hard == (ours.kind is MemberKind.HARD_LINK)
        assert ours.kind not in LINKS or ours.link in {b"", theirs.target}


@pytest.mark.slow
@settings(max_examples=INPUTS, deadline=None)
@given(data=st.one_of(changed_archives(), st.binary(max_size=3000)))
def test_whatever_comes_ends_in_an_error_of_ours(data) -> None:
    """Neither reader raises anything but its own errors, and neither finds more contents than there are bytes."""
    for read in (strictly(data), as_layer(data)):
        assert type(read.refusal) in {type(None), MalformedArchive, StreamBoundError, ValueError, TarDefectError}
        assert sum(len(content) for _, content in read.found) <= len(data)
        assert len(read.found) <= len(data) // BLOCK_BYTES


def endless(first: bytes, pieces: int) -> Iterator[bytes]:
    """Yields bytes, and then zeros that are none of a tar's."""
    yield first
    yield from itertools.repeat(bytes(65536), pieces)


@pytest.mark.parametrize("kind", [tar_format.FILE, *sorted(tar_format.EXTENSIONS)])
def test_memory_is_bounded_whatever_a_header_says(kind) -> None:
    """A file or an extended header of gigabytes is never held, by neither reader."""
    first = header(kind, b"x", b"\x80" + (2**33).to_bytes(11, "big"), tar_format.POSIX)
    source = endless(first, 500)
    stream = TarStream(lambda count: next(source, b"")[:count])
    tracemalloc.start()
    try:
        with pytest.raises(MalformedArchive):
            list(stream)
        with pytest.raises(StreamBoundError):
            list(read_members(BoundedStream(endless(first, 500), 30 * MIB, 60.0)))
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("field", "number"),
    [
        (b"0000644\0", 0o644),
        (b"  644 \0\0", 0o644),
        (b"\0\0\0\0\0\0\0\0", 0),
        (b"\x80\0\0\0\0\0\x01\0", 256),
        (b"77777777", 0o77777777),
    ],
)
def test_numbers_are_octal_or_binary(field, number) -> None:
    """Digits may stand anywhere in their field; the first bit says that they are none."""
    assert tar_format.field_number(field) == number


@pytest.mark.parametrize(
    ("field", "defect"),
    [
        (b"0000648\0", TarDefect.NUMBER),
        (b"6 4\0\0\0\0\0", TarDefect.NUMBER),
        (b"6\0004\0\0\0\0\0", TarDefect.NUMBER),
        (b"-644\0\0\0\0", TarDefect.NUMBER),
        (b"6_4\0\0\0\0\0", TarDefect.NUMBER),
        (b"\xff" * 8, TarDefect.NUMBER_BOUNDS),
        (b"\x81\0\0\0\0\0\0\0", TarDefect.NUMBER_BOUNDS),
    ],
)
def test_what_is_no_number_is_refused(field, defect) -> None:
    """Signs, other characters, gaps between digits and numbers beyond the field have no meaning here."""
    with pytest.raises(TarDefectError) as caught:
        tar_format.field_number(field)
    assert caught.value.defect is defect


@pytest.mark.parametrize("digits", [b"8", b"008", b"00000008"])
def test_a_records_length_may_begin_with_zeros(digits) -> None:
    """A record is walked by the number that stands before it, of at most eight digits."""
    whole = len(digits) + len(b" a=b\n")
    said = b"%0*d" % (len(digits), whole)
    [found] = tar_format.pax_records(said + b" a=b\n")
    assert (found.digits, found.key, found.equals, found.value) == (said, b"a", b"=", b"b")


def test_the_walk_along_records_is_lazy() -> None:
    """A reader may refuse one record before the next one is looked at."""
    walk = tar_format.pax_records(record(b"a", b"b") + b"no record")
    assert next(walk).key == b"a"
    with pytest.raises(TarDefectError, match="not as long as it says"):
        next(walk)


@pytest.mark.parametrize(("count", "refusal"), [(100, None), (101, "too many")])
def test_the_records_of_a_submissions_member_are_counted(count, refusal) -> None:
    """A hundred records are read, and one more is refused; a layer may have more."""
    records = b"".join(record(b"VENDOR.%d" % number, b"") for number in range(count))
    member = header(tar_format.FILE, b"a", b"0", tar_format.POSIX)
    data = extension(tar_format.RECORDS, records, tar_format.POSIX) + member + bytes(2 * BLOCK_BYTES)
    read = strictly(data)
    assert (refusal in str(read.refusal)) if refusal else len(read.found[0][0].pax) == count
    assert as_layer(data).refusal is None


def hidden_link() -> bytes:
    """A global header between a member's records and the member: Go forgets the records there."""
    return (
        extension(tar_format.RECORDS, record(b"path", b"harmless"), tar_format.POSIX)
        + extension(tar_format.GLOBAL_RECORDS, record(b"comment", b"x"), tar_format.POSIX)
        + header(tar_format.LINK, b"tmp", b"0", tar_format.POSIX, b"/elsewhere")
        + bytes(2 * BLOCK_BYTES)
    )


def long_hidden_link() -> bytes:
    """The same with a long name in GNU's way."""
    return (
        extension(tar_format.LONG_NAME, b"harmless\0", tar_format.GNU)
        + extension(tar_format.GLOBAL_RECORDS, record(b"comment", b"x"), tar_format.POSIX)
        + header(tar_format.LINK, b"tmp", b"0", tar_format.GNU, b"/elsewhere")
        + bytes(2 * BLOCK_BYTES)
    )


@pytest.mark.parametrize("archive", [hidden_link, long_hidden_link])
def test_nothing_stands_between_a_member_and_what_is_said_of_it(archive) -> None:
    """Go, which unpacks images on nodes, and we would read two names there: it is refused."""
    for reading in (strictly(archive()), as_layer(archive())):
        assert not reading.found
        assert "a header for all members before the member of another" in str(reading.refusal)


def test_a_leading_global_header_is_read() -> None:
    """`git archive` begins so."""
    begun = extension(tar_format.GLOBAL_RECORDS, record(b"comment", b"revision"), tar_format.POSIX)
    archive = begun + header(tar_format.FOLDER, b"a/", b"0", tar_format.POSIX) + bytes(2 * BLOCK_BYTES)
    assert [member.name for member, _ in strictly(archive).found] == [b"a/"]
    assert [member.name for member, _ in as_layer(archive).found] == [b"a/"]


@pytest.mark.parametrize(
    ("kind", "magic"), [(tar_format.RECORDS, tar_format.POSIX), (tar_format.LONG_LINK, tar_format.GNU)]
)
def test_a_link_that_is_said_to_lead_nowhere_is_refused(kind, magic) -> None:
    """An empty link in an extended header is none to us and the header's own to Go."""
    said = record(b"linkpath", b"") if kind == tar_format.RECORDS else b"\0"
    archive = extension(kind, said, magic) + header(tar_format.HARD_LINK, b"a", b"0", magic, b"../../etc/passwd")
    reading = strictly(archive + bytes(2 * BLOCK_BYTES))
    assert not reading.found
    assert "a link that leads nowhere" in str(reading.refusal)


@pytest.mark.parametrize("trailer", [b"tar\0", b""])
def test_a_prefix_that_is_read_in_two_ways_is_refused(trailer) -> None:
    """The old form of star has a shorter prefix, and GNU's headers have times there."""
    magic = tar_format.POSIX if trailer else tar_format.GNU
    block = bytearray(header(tar_format.FILE, b"a", b"0", magic, prefix=b"p" * 131 + b"q" * 24))
    block[508:512] = trailer.ljust(4, b"\0")
    for reading in (strictly(fixed(bytes(block)) + bytes(1024)), as_layer(fixed(bytes(block)) + bytes(1024))):
        assert not reading.found
        assert "prefix" in str(reading.refusal)
