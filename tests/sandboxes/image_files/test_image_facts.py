"""The files of an image are looked at as a stream: what is found, and what a hostile stream cannot do."""

import io
import tarfile

import pytest

from orchestrator.errors import Problem
from orchestrator.sandboxes.image_files import image_facts

CAPABILITY = {"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}
MIB = 1024 * 1024


def member(name, kind=tarfile.REGTYPE, mode=0o644, size=0, headers=None):
    """Returns one member of an archive."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size = kind, mode, size
    entry.pax_headers = headers or {}
    return entry


def stream(*members, form=tarfile.PAX_FORMAT):
    """Returns an archive of these members, each filled with zeros."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for entry in members:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return out.getvalue()


def pieces(data, size=700):
    """Yields bytes in pieces that fit no boundary."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def look(*members, most=100 * MIB, form=tarfile.PAX_FORMAT):
    """Returns what is found among these members."""
    return image_facts.read_image_tree(pieces(stream(*members, form=form)), most)


def test_each_kind_of_file_is_found():
    """Set-user-id, set-group-id, capabilities, device nodes and what everybody can write to are named and counted."""
    found = look(
        member("usr/bin/su", mode=0o4755, size=3000),
        member("usr/bin/wall", mode=0o2755),
        member("usr/bin/ping", headers=CAPABILITY),
        member("opt/mem", kind=tarfile.CHRTYPE),
        member("opt/disk", kind=tarfile.BLKTYPE),
        member("tmp", kind=tarfile.DIRTYPE, mode=0o1777),
        member("etc/passwd", mode=0o666),
    )
    assert found.names["set_id"] == ("/usr/bin/su", "/usr/bin/wall")
    assert found.names["capable"] == ("/usr/bin/ping",)
    assert found.names["devices"] == ("/opt/mem", "/opt/disk")
    assert found.names["writable"] == ("/tmp/", "/etc/passwd")  # noqa: S108  the image's own
    assert (found.files, found.size, found.cut_reason) == (7, 3000, "")


def test_what_is_harmless_is_not_named():
    """Folders with the set-group-id bit, links with all bits and the nodes below /dev are left out."""
    found = look(
        member("var/mail", kind=tarfile.DIRTYPE, mode=0o2775),
        member("bin", kind=tarfile.SYMTYPE, mode=0o777),
        member("dev/null", kind=tarfile.CHRTYPE, mode=0o666),
    )
    assert not any(found.counts.values())


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_hostile_names_are_read_and_made_printable(form):
    """Names beyond a header's 100 bytes are whole in both extensions; escapes in them cannot reach a terminal."""
    name = "\x1b[2J" + "deep/" * 15 + "x" * 40 + "\n"
    (found,) = look(member(name, mode=0o4755), form=form).names["set_id"]
    assert found.startswith("/\\x1b[2Jdeep/")
    assert found.isprintable()
    assert len(found) == 120


def test_capabilities_belong_to_one_member_only():
    """An extended header counts for the member after it and for no other."""
    found = look(member("a", headers=CAPABILITY), member("b"))
    assert found.names["capable"] == ("/a",)


def record(key: bytes, value: bytes) -> bytes:
    """Returns one record of an extended header."""
    rest = b" " + key + b"=" + value + b"\n"
    lengths = range(len(rest), len(rest) + 9)
    return next(b"%d" % length + rest for length in lengths if length == len(b"%d" % length + rest))


def extended(records: bytes, entry: tarfile.TarInfo, content: bytes, size: int | None = None) -> bytes:
    """Returns a member with an extended header of these bytes before it; `size` is what its own header says."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    entry.size = len(content) if size is None else size
    return b"".join(
        data + bytes(-len(data) % 512)
        for data in (header.tobuf(tarfile.USTAR_FORMAT), records, entry.tobuf(tarfile.USTAR_FORMAT), content)
    )


@pytest.mark.parametrize(
    "inside", [b"\n1 size=512\n", b"\n18 path=harmless\n", b"\n1 SCHILY.xattr.security.capability=x\n"]
)
def test_what_looks_like_a_record_within_a_value_is_none(inside) -> None:
    """An attribute's free bytes choose neither size nor name: what lies in a file is not taken for members."""
    lie = member("etc/lie", mode=0o4755).tobuf(tarfile.USTAR_FORMAT)
    attribute = record(b"SCHILY.xattr.user.note", b"\x01\x00\x00\x02" + inside)
    data = extended(attribute, member("bin/file", mode=0o4755), bytes(512) + lie + bytes(1024))
    found = image_facts.read_image_tree(pieces(data + stream(member("bin/next", mode=0o2755))), MIB)
    assert found.names["set_id"] == ("/bin/file", "/bin/next")
    assert (found.files, found.size, found.cut_reason) == (2, 2048, "")
    assert not found.counts["capable"]


def test_records_are_read_by_their_length() -> None:
    """Name, size and capabilities come from the records that say so, whatever their values hold."""
    name = "deep/" * 30 + "file"
    records = record(b"comment", b"1 path=x\n") + record(b"path", name.encode()) + record(b"size", b"1024")
    records += record(b"SCHILY.xattr.security.capability", b"\n9 size=7\n=\x00")
    data = extended(records, member("short", mode=0o4755), bytes(1024), size=0)
    found = image_facts.read_image_tree(pieces(data + stream(member("a"))), MIB)
    assert found.names["capable"] == found.names["set_id"]
    assert found.names["set_id"][0].startswith("/deep/deep/")
    assert (found.files, found.size, found.cut_reason) == (2, 1024, "")


@pytest.mark.parametrize(
    "records",
    [
        b"path=x\n",
        b"9 path=x",
        b"11 path=x\n",
        b"8 path=x\n",
        b"2 \n",
        b"0 path=x\n",
        b"99999999 path=x\n",
        b"999999999999 path=x\n",
        b"-9 path=x\n",
        b" 9 path=x\n",
        record(b"path", b"x") + b"\n",
        record(b"size", b"-1"),
        record(b"size", b"1e3"),
        record(b"size", b""),
    ],
)
def test_records_that_are_none_end_the_looking(records) -> None:
    """What cannot be followed is said, and nothing after it is guessed at."""
    found = image_facts.read_image_tree(pieces(extended(records, member("b"), b"") + stream(member("c"))), MIB)
    assert "an extended header's" in found.cut_reason
    assert found.files == 0


def test_only_the_first_names_are_kept_and_all_are_counted():
    """A million set-user-id files do not fill the memory."""
    found = look(*(member(f"f{number}", mode=0o4755) for number in range(50)))
    assert len(found.names["set_id"]) == image_facts.MAX_NAMES_SHOWN
    assert found.counts["set_id"] == 50


def test_bytes_are_bounded():
    """A stream longer than an image may be is not read to its end, and that is said."""
    found = look(member("a", mode=0o4755), member("big", size=3 * MIB), member("b", mode=0o4755), most=2 * MIB)
    assert "more bytes" in found.cut_reason
    assert found.names["set_id"] == ("/a",)


def test_members_are_bounded(monkeypatch):
    """So is the number of files."""
    monkeypatch.setattr(image_facts, "MAX_MEMBERS", 10)
    found = look(*(member(f"f{number}") for number in range(30)))
    assert (found.files, found.cut_reason) == (10, "it holds more than 10 files")


def test_time_is_bounded():
    """So is the time, however slowly the stream comes."""
    assert "time" in image_facts.read_image_tree(pieces(stream(member("a"))), MIB, seconds=0.0).cut_reason


def test_an_extended_header_is_bounded():
    """An extended header of gigabytes is not taken into memory."""
    entry = member("x", size=5 * MIB)
    entry.type = tarfile.XHDTYPE
    assert (
        "extended header of 5242880 bytes"
        in image_facts.read_image_tree(pieces(entry.tobuf() + bytes(9 * MIB)), 99 * MIB).cut_reason
    )


@pytest.mark.parametrize(
    "data", [b"", b"no archive at all", b"\xff" * 4096, b"0" * 4096, stream(member("a", size=9000))[:700]]
)
def test_what_is_no_archive_is_said_and_never_raised(data):
    """Whatever comes, the answer is what was seen so far."""
    found = image_facts.read_image_tree(pieces(data), MIB)
    assert found.files <= 1
    assert found.cut_reason or not any(data[:512]) or len(data) < 512


class Engine:
    """An engine that has one container."""

    def __init__(self):
        self.made, self.removed = [], []

    def history(self, image):
        """Returns two layers, the last one first."""
        return [{"Size": 5}, {"Size": 700}]

    def create(self, options, name):
        """Notes what was asked for."""
        self.made.append(options)
        return "c1"

    def export(self, container):
        """Yields one file."""
        yield stream(member("su", mode=0o4755))

    def remove(self, container):
        """Notes it."""
        self.removed.append(container)


IMAGE = {
    "Id": "sha256:1",
    "Size": 705,
    "Config": {"User": "0", "Env": ["A=1", "LD_PRELOAD=x"], "ExposedPorts": {"80/tcp": {}}},
}


def test_the_container_is_never_started_and_always_removed():
    """It is made with a command that is not there, without a network, and removed even when looking fails."""
    engine = Engine()
    facts = image_facts.inspect_image(engine, IMAGE, [], {"sparring.run": "look"}, files=True)
    assert engine.made[0]["Entrypoint"] == ["/never-started"]
    assert engine.made[0]["HostConfig"]["NetworkMode"] == "none"
    assert engine.removed == ["c1"]
    assert facts.tree.names["set_id"] == ("/su",)
    engine.export = lambda container: (_ for _ in ()).throw(RuntimeError("lost"))
    with pytest.raises(RuntimeError):
        image_facts.inspect_image(engine, IMAGE, [], {}, files=True)
    assert engine.removed == ["c1", "c1"]


def test_facts_are_the_engines_in_our_words():
    """Layers come lowest first, and the variables that a player gets are named."""
    facts = image_facts.inspect_image(Engine(), IMAGE, [Problem("a", "b")], {}, files=False)
    assert (facts.size, facts.layers, facts.user, facts.ports) == (705, (700, 5), "0", ("80/tcp",))
    assert facts.passed_variables == {"A"}
    assert facts.tree is None
    assert facts.problems == (Problem("a", "b"),)


def test_an_image_with_volumes_is_not_looked_into():
    """Making a container of it would write the volumes to the host's disk."""
    engine = Engine()
    facts = image_facts.inspect_image(engine, {"Id": "x", "Config": {"Volumes": {"/data": {}}}}, [], {}, files=True)
    assert engine.made == []
    assert "volumes" in facts.tree.cut_reason


def test_a_configuration_of_nonsense_is_taken_as_nothing():
    """Fields of other types than the engine's are no facts and no crash."""
    image = {"Id": "x", "Size": -3, "Config": {"Env": "A=1", "Volumes": 7, "Labels": None, "Healthcheck": None}}
    facts = image_facts.make_image_facts(image, [{"Size": "many"}], [], None)
    assert (facts.size, facts.layers, facts.environment, facts.volumes) == (0, (0,), (), ())
