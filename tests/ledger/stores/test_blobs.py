"""Bytes kept by what they are."""

import hashlib
import io
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.errors import StoreFault
from orchestrator.ledger.stores.base import get_array, put_array
from orchestrator.ledger.stores.folder import FolderBlobs
from orchestrator.ledger.stores.memory import MemoryBlobs

EACH = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def path_of(folder, digest):
    """Returns where a folder keeps that blob."""
    return folder / digest[7:9] / digest[9:]


@EACH
@given(data=st.binary(max_size=200))
def test_bytes_come_back(blobs, data):
    """A blob's name is its SHA-256, and its bytes are what was put."""
    name = blobs.put(data)
    assert name == "sha256:" + hashlib.sha256(data).hexdigest()
    assert blobs.get(name) == data


def test_the_same_bytes_are_kept_once(tmp_path):
    """Putting a blob again gives the same name and writes nothing."""
    blobs = FolderBlobs(tmp_path)
    name = blobs.put(b"abc")
    before = path_of(tmp_path, name).stat().st_mtime_ns
    assert blobs.put(b"abc") == name
    assert path_of(tmp_path, name).stat().st_mtime_ns == before
    assert sum(1 for found in tmp_path.rglob("*") if found.is_file()) == 1


def test_a_missing_blob_is_named(blobs):
    """Asking for what was never put is a StoreFault with the digest."""
    name = "sha256:" + "a" * 64
    with pytest.raises(StoreFault, match=name):
        blobs.get(name)


@pytest.mark.parametrize("name", ["", "sha256:", "abc", "sha256:../../etc/passwd", "sha256:ab/../../x"])
def test_a_name_that_is_no_digest_finds_nothing(blobs, name):
    """Nothing is returned for a name that is no digest, whatever lies at such a path."""
    with pytest.raises(StoreFault):
        blobs.get(name)


@pytest.mark.parametrize("damage", [b"", b"abd", b"abc\n", b"ab"])
def test_a_damaged_blob_is_never_returned(tmp_path, damage):
    """Bytes that are not what the digest says are a StoreFault that says which file to remove."""
    blobs = FolderBlobs(tmp_path)
    name = blobs.put(b"abc")
    path_of(tmp_path, name).write_bytes(damage)
    with pytest.raises(StoreFault, match=f"is damaged; remove {path_of(tmp_path, name)}"):
        blobs.get(name)
    path_of(tmp_path, name).unlink()
    assert blobs.get(blobs.put(b"abc")) == b"abc"


def put_in_pack(folder, *bytes_of_blobs):
    """Puts blobs into one new pack and returns it with their digests."""
    blobs, before = FolderBlobs(folder, pack=True), set(folder.glob("packs/*"))
    names = [blobs.put(data) for data in bytes_of_blobs]
    [pack] = set(folder.glob("packs/*")) - before
    return pack, names


def test_a_pack_is_as_it_is_described(tmp_path):
    """A pack holds a mark, a length, a SHA-256 and the bytes of each blob, once, and nobody else can read it."""
    pack, _ = put_in_pack(tmp_path, b"abc", b"", b"abc", b"d" * 300)
    wanted = [
        b"BLOB" + len(d).to_bytes(4, "little") + hashlib.sha256(d).digest() + d for d in (b"abc", b"", b"d" * 300)
    ]
    assert pack.read_bytes() == b"".join(wanted)
    assert pack.stat().st_mode & 0o777 == 0o600


def test_a_large_blob_has_a_file_of_its_own(tmp_path):
    """What is larger than 64 KiB is not packed."""
    name = FolderBlobs(tmp_path, pack=True).put(bytes(65_537))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [path_of(tmp_path, name)]


def test_every_store_finds_what_others_put(tmp_path):
    """Files and packs of several writers are one store, also for who looked before they wrote; no pack has it twice."""
    reader = FolderBlobs(tmp_path)
    writers = [FolderBlobs(tmp_path), FolderBlobs(tmp_path, pack=True), FolderBlobs(tmp_path, pack=True)]
    for turn in range(3):
        names = [writer.put(b"%d %d" % (turn, number)) for number, writer in enumerate(writers)]
        assert [reader.get(name) for name in names] == [b"%d %d" % (turn, number) for number in range(3)]
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    late = FolderBlobs(tmp_path, pack=True)
    for number in (1, 2):
        late.put(b"0 %d" % number)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(before) == 5


def test_a_damaged_blob_in_a_pack_is_never_returned(tmp_path):
    """It is a StoreFault that names the pack and the byte; others in it are whole, and put again it is found again."""
    pack, [first, second] = put_in_pack(tmp_path, b"abc", b"def")
    pack.write_bytes(pack.read_bytes().replace(b"abc", b"abd"))
    blobs = FolderBlobs(tmp_path, pack=True)
    with pytest.raises(StoreFault, match=f"blob {first} is damaged in {pack}, byte 40; run again"):
        blobs.get(first)
    assert blobs.get(second) == b"def"
    assert FolderBlobs(tmp_path, pack=True).put(b"abc") == first
    assert blobs.get(first) == FolderBlobs(tmp_path).get(first) == b"abc"


def test_half_a_record_hides_nothing_before_it_or_in_other_packs(tmp_path):
    """Cut at any byte, as a kill may leave it, a pack has its whole records, and what is lost can be put again."""
    pack, names = put_in_pack(tmp_path, b"abc", b"defg")
    whole = pack.read_bytes()
    for size in range(len(whole)):
        pack.write_bytes(whole[:size])
        left = FolderBlobs(tmp_path)
        for name, data, end in ((names[0], b"abc", 43), (names[1], b"defg", 87)):
            if size >= end:
                assert left.get(name) == data
            else:
                with pytest.raises(StoreFault, match=name):
                    left.get(name)
    other, _ = put_in_pack(tmp_path, b"defg")
    assert other != pack
    assert FolderBlobs(tmp_path).get(names[1]) == b"defg"


def test_garbage_in_a_pack_is_no_record(tmp_path):
    """Where the head of a record is not one, what lies behind it is missing, never something else."""
    pack, names = put_in_pack(tmp_path, b"abc", b"defg")
    pack.write_bytes(b"".join([pack.read_bytes()[:43], b"NONE", pack.read_bytes()[47:]]))
    assert FolderBlobs(tmp_path).get(names[0]) == b"abc"
    with pytest.raises(StoreFault, match=f"blob {names[1]} cannot be read"):
        FolderBlobs(tmp_path).get(names[1])


def test_reading_makes_no_pack(tmp_path):
    """A store that is only read from writes nothing, whatever it was opened for."""
    name = FolderBlobs(tmp_path).put(b"abc")
    before = list(tmp_path.rglob("*"))
    assert FolderBlobs(tmp_path, pack=True).get(name) == b"abc"
    assert list(tmp_path.rglob("*")) == before


def test_half_a_blob_is_never_seen(tmp_path, monkeypatch):
    """When writing fails, for want of space for example, no file is left behind, and the next try keeps the blob."""
    blobs = FolderBlobs(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(StoreFault, match=r"cannot keep a blob .* No space left on device"):
            blobs.put(b"abc")
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == []
    assert blobs.get(blobs.put(b"abc")) == b"abc"


def test_a_folder_that_is_in_the_way_is_a_fault_of_ours(tmp_path):
    """Where a file stands in place of the blob's folder, putting is a StoreFault."""
    blobs = FolderBlobs(tmp_path)
    digest = hashlib.sha256(b"abc").hexdigest()
    (tmp_path / digest[:2]).write_bytes(b"")
    with pytest.raises(StoreFault, match="cannot keep a blob"):
        blobs.put(b"abc")


def test_bytes_in_memory_cannot_be_changed(event):
    """A buffer that is changed after it was put changes no blob."""
    blobs = MemoryBlobs()
    buffer = bytearray(b"abc")
    name = blobs.put(buffer)
    buffer[0] = 0
    assert blobs.get(name) == b"abc"


@EACH
@given(
    array=hnp.arrays(
        st.sampled_from([np.uint8, np.int32, np.bool_, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
    )
)
def test_arrays_come_back(blobs, array):
    """Type, shape and every value of an array survive, NaN and empty ones included."""
    found = get_array(blobs, put_array(blobs, array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array, equal_nan=array.dtype == np.float64)


def test_the_layout_in_memory_does_not_change_the_values(blobs):
    """An array that is not contiguous comes back the same."""
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[::-1, ::2]
    assert np.array_equal(get_array(blobs, put_array(blobs, array)), array)


@EACH
@given(
    array=hnp.arrays(
        st.sampled_from([np.uint8, ">i4", np.bool_, np.float64, "<U3"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    columns_first=st.booleans(),
)
def test_the_bytes_are_those_that_numpy_writes(blobs, array, columns_first):
    """Who has NumPy can read what is kept, and an array has one digest."""
    array = np.asfortranarray(array) if columns_first else array
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    name = put_array(blobs, array)
    assert blobs.get(name) == written.getvalue()
    found = get_array(blobs, name)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array, equal_nan=array.dtype == np.float64)
    assert found.flags.writeable


@pytest.mark.parametrize(
    "header",
    [
        {"shape": (-1,), "fortran_order": False, "descr": "|u1"},
        {"shape": (10**30,), "fortran_order": False, "descr": "|u1"},
        {"shape": (2, 2**62), "fortran_order": True, "descr": "<f8"},
        {"shape": (2**62, 4), "fortran_order": False, "descr": "|u1"},
        {"shape": (33,), "fortran_order": False, "descr": "|u1"},
        {"shape": (1,), "fortran_order": False, "descr": "|O"},
        {"shape": (1,), "fortran_order": False, "descr": "|V0"},
    ],
    ids=str,
)
def test_a_header_that_promises_something_else_is_a_fault(blobs, header):
    """A negative or huge size, more than there is, objects: each is a StoreFault, and takes no memory."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, header)
    name = blobs.put(made.getvalue() + bytes(32))
    with pytest.raises(StoreFault, match=f"blob {name} is not an array"):
        get_array(blobs, name)


def test_objects_are_never_kept(blobs):
    """An array of objects is refused when it is put: reading it would unpickle."""
    with pytest.raises(ValueError, match="allow_pickle"):
        put_array(blobs, np.array([{}], object))


@pytest.mark.parametrize("data", [b"", b"no array", b"PK\x03\x04 no zip", b"\x93NUMPY\x01\x00", b"\x93NUMPY" * 50])
def test_a_blob_that_is_no_array_is_a_fault(blobs, data):
    """Whatever else a blob holds, asking for an array is a StoreFault."""
    name = blobs.put(data)
    with pytest.raises(StoreFault, match=f"blob {name} is not an array"):
        get_array(blobs, name)


def test_a_pickle_is_never_opened(blobs, tmp_path):
    """A blob that holds a pickle, or an array of objects, is a StoreFault and runs nothing."""
    trace = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return type(trace).touch, (trace,)

    np.save(tmp_path / "objects.npy", np.array([Trap()], object), allow_pickle=True)
    for data in (pickle.dumps(Trap()), (tmp_path / "objects.npy").read_bytes()):
        with pytest.raises(StoreFault, match="is not an array"):
            get_array(blobs, blobs.put(data))
    assert not trace.exists()
