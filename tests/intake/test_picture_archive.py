"""Entries of an attack-set contest (C1, C2): what is read, what is refused and how it is said, and what that costs."""

import hashlib
import io
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from orchestrator.archives.decompress import SizeLimit
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake.picture_archive import PictureLayout, read_picture_archive
from orchestrator.picture_files.problems import ProblemList
from orchestrator.picture_files.zip_files import PictureBounds

JPEG, PNG, NPZ = PictureFormat.JPEG, PictureFormat.PNG, PictureFormat.NPZ
COUNT, HEIGHT, WIDTH = 3, 6, 8
PIXELS = np.random.default_rng(0).integers(0, 256, (COUNT, HEIGHT, WIDTH, 3), np.uint8)
LABELS = "0.jpg 7\n1.jpg 0\n2.jpg 9\n"
LAYOUT = PictureLayout(
    tuple(f"images/{position}.jpg" for position in range(COUNT)),
    *(HEIGHT, WIDTH, 3, frozenset({JPEG, PNG, NPZ}), ("7", "0", "9")),
)
UNIX = 3
MEMORY = 6 * 1024**2
"""What reading any of the archives below may take: the list of a zip, pieces of a file, and little else."""
Files = Mapping[str | zipfile.ZipInfo, bytes]


def encoded(array: np.ndarray, kind: str = "PNG", mode: str | None = None, **options: object) -> bytes:
    """Returns an array as the bytes of a picture."""
    out, image = io.BytesIO(), Image.fromarray(array)
    (image.convert(mode) if mode else image).save(out, kind, **options)
    return out.getvalue()


def zipped(files: Files, method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    """Returns a zip of files by name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as target:
        target.comment = comment
        for name, content in files.items():
            target.writestr(name, content)
    return made.getvalue()


def member(name: str, mode: int = 0, **more: object) -> zipfile.ZipInfo:
    """Returns a member as a Unix system writes it."""
    found = zipfile.ZipInfo(name)
    found.create_system, found.external_attr = UNIX, mode << 16
    for key, value in more.items():
        setattr(found, key, value)
    return found


def array_file(array: np.ndarray, **kwargs: object) -> bytes:
    """Returns an array as the bytes of an .npy file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **kwargs)
    return out.getvalue()


def savez(**arrays: np.ndarray) -> bytes:
    """Returns what NumPy saves."""
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    """Returns a chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    rows: bytes | None = None, *, size: tuple[int, int] = (WIDTH, HEIGHT), bits: int = 8, colour: int = 2, lace: int = 0
) -> bytes:
    """Returns a PNG with a header of any kind, and these bytes for its rows."""
    header = struct.pack(">2L5B", *size, bits, colour, 0, 0, lace)
    plain = zlib.compress(bytes(HEIGHT * (1 + 3 * WIDTH))) if rows is None else rows
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", plain) + chunk(b"IEND", b"")


def with_chunk(extra: bytes) -> bytes:
    """Returns a good PNG with a chunk more after its header."""
    return PICTURE_PNG[:33] + extra + PICTURE_PNG[33:]


def with_segment(marker: int, body: bytes) -> bytes:
    """Returns a good JPEG with a segment more at its beginning."""
    return PICTURE[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body + PICTURE[2:]


def frame(**fields: int) -> bytes:
    """Returns a JPEG with other numbers in the header of its frame."""
    at = PICTURE.index(b"\xff\xc0")
    places = {"marker": (1, ">B"), "bits": (4, ">B"), "height": (5, ">H"), "width": (7, ">H"), "components": (9, ">B")}
    made = bytearray(PICTURE)
    for name, value in fields.items():
        offset, form = places[name]
        struct.pack_into(form, made, at + offset, value)
    return bytes(made)


PICTURE = encoded(PIXELS[0], "JPEG", quality=95, subsampling=0)
PICTURE_PNG = encoded(PIXELS[0])
PICTURES = {name: encoded(PIXELS[n], "JPEG", quality=95, subsampling=0) for n, name in enumerate(LAYOUT.names)}
ORDINARY = zipped(PICTURES)


def first(picture: bytes) -> bytes:
    """Returns an archive whose first picture has these bytes."""
    return zipped(PICTURES | {"images/0.jpg": picture})


def beside(name: str | zipfile.ZipInfo, content: bytes = b"x") -> bytes:
    """Returns an archive with a member more."""
    return zipped({**PICTURES, name: content})


def edited(at: int, value: bytes, data: bytes = ORDINARY) -> bytes:
    """Returns an archive with some bytes replaced."""
    return data[:at] + value + data[at + len(value) :]


def listed(at: int, value: bytes) -> bytes:
    """Returns an archive with some bytes of the first entry of its list replaced."""
    return edited(ORDINARY.index(b"PK\x01\x02") + at, value)


def ended(at: int, value: bytes) -> bytes:
    """Returns an archive with some bytes of its end record replaced."""
    return edited(ORDINARY.rindex(b"PK\x05\x06") + at, value)


def named(raw: bytes) -> bytes:
    """Returns an archive with a fourth member whose name has these bytes."""
    plain = "z" * len(raw)
    return beside(plain).replace(plain.encode(), raw)


def archive_of_array(data: bytes) -> bytes:
    """Returns a zip with the array file and nothing else."""
    return zipped({"images.npy": data})


def array_header(text: str) -> bytes:
    """Returns an array file with a header of any text."""
    raw = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + bytes(PIXELS.size)


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    # The file as a whole.
    "empty-file": (lambda: b"", "archive: no zip; pack it"),
    "text": (lambda: b"hello" * 100, "archive: no zip; pack it"),
    "tar": (lambda: bytes(257) + b"ustar" + bytes(762), "archive: no zip; pack it"),
    "one-picture": (lambda: PICTURE, "archive: no zip; pack it"),
    "cut-in-half": (lambda: ORDINARY[: len(ORDINARY) // 2], "archive: no list of members at its end"),
    "cut-by-one": (lambda: ORDINARY[:-1], "archive: "),
    "empty-zip": (lambda: zipped({}), "archive: none of the task's 3 pictures is in it"),
    "too-large": (lambda: bytes(2 * 1024**2), "archive: 2097152 bytes, at most 1246912"),
    # The zip.
    "bytes-before": (lambda: b"MZ" + bytes(98) + ORDINARY, "a list of members that is not at its end"),
    "bytes-after": (lambda: ORDINARY + b"x", "a list of members that is not at its end"),
    "two-ends": (lambda: ORDINARY + ORDINARY[-22:], "a list of members that is not at its end"),
    "comment-with-end-mark": (
        lambda: zipped(PICTURES, comment=b"PK\x05\x06" + bytes(30)),
        "a list of members that is not at its end",
    ),
    "overlap": (lambda: listed(42, b"\x01\0\0\0"), "members that overlap"),
    "one-body-many-names": (
        lambda: edited(ORDINARY.index(b"PK\x01\x02", ORDINARY.index(b"PK\x01\x02") + 4) + 42, bytes(4)),
        "members that overlap",
    ),
    "encrypted": (lambda: listed(8, b"\x01\0"), "encrypted"),
    "strong-encryption": (lambda: listed(8, b"\x41\0"), "encrypted"),
    "method-bzip2": (lambda: zipped(PICTURES, zipfile.ZIP_BZIP2), "compression method 12"),
    "method-lzma": (lambda: zipped(PICTURES, zipfile.ZIP_LZMA), "compression method 14"),
    "method-unknown": (lambda: listed(10, b"\x63\0"), "compression method 99"),
    "wrong-checksum": (
        lambda: first(PICTURE).replace(PICTURE[-9:], PICTURE[-9:-2] + b"\0\0", 1),
        "is not what the list",
    ),
    "size-lie": (lambda: listed(24, b"\xff\xff\xff\x0f"), "a stored file with two sizes"),
    "zip64-mark-in-list": (lambda: listed(24, b"\xff\xff\xff\xff"), "a stored file with two sizes"),
    "zip64-field-in-list": (
        lambda: beside(member("x", extra=struct.pack("<2HQ", 1, 8, 1))),
        "an extra field with a second name or size",
    ),
    "zip64-end": (lambda: ended(10, b"\xff\xff"), "a 64-bit zip"),
    "unicode-name-field": (
        lambda: beside(member("x", extra=struct.pack("<2HBL", 0x7075, 5, 1, 0))),
        "an extra field with a second name or size",
    ),
    "split": (lambda: ended(4, b"\x01\0"), "a part of a split zip"),
    "count-too-small": (lambda: ended(8, b"\x01\0\x01\0"), "a list that is longer than its members"),
    "count-too-large": (lambda: ended(8, b"\x09\0\x09\0"), "a list of members that is cut short"),
    "list-beyond-file": (lambda: ended(12, b"\xff\xff\xff\x7f"), "a list of members that is not at its end"),
    "header-with-another-name": (lambda: edited(30, b"Images"), "a header that contradicts the list"),
    "many-members": (
        lambda: zipped({**PICTURES, **{f"{n}": b"" for n in range(5000)}}),
        "archive: 5003 members, at most 73",
    ),
    "many-members-and-a-small-count": (
        lambda: (
            (data := zipped({**PICTURES, **{f"{n}": b"" for n in range(5000)}}))[:-14] + b"\x03\0\x03\0" + data[-10:]
        ),
        "a list that is longer than its members",
    ),
    "bomb": (
        lambda: zipped({**PICTURES, "zeros": bytes(12 * 1024**2)}, zipfile.ZIP_DEFLATED),
        "more than 100 times as many: a bomb",
    ),
    "bomb-in-a-picture": (
        lambda: zipped({"images/0.jpg": PICTURE + bytes(12 * 1024**2)}, zipfile.ZIP_DEFLATED),
        "images/0.jpg: 1258",
    ),
    "bomb-in-label.txt": (
        lambda: zipped({**PICTURES, "label.txt": b"0.jpg 7\n" * 10**6}, zipfile.ZIP_DEFLATED),
        "label.txt: 8000000 bytes, at most 2048",
    ),
    # Names.
    "parent-folder": (lambda: beside("../x"), "../x: a name that leads out of its folder"),
    "parent-folder-inside": (lambda: beside("images/../../x"), "a name that leads out of its folder"),
    "absolute": (lambda: beside("/etc/passwd"), "/etc/passwd: an absolute name"),
    "drive": (lambda: beside("C:/x"), "C:/x: an absolute name"),
    "backslash": (lambda: beside("images\\0.jpg"), "a name with a backslash"),
    "nul": (lambda: named(b"images/0.jpg\0.exe"), "a member whose name is empty or holds a NUL"),
    "newline": (lambda: named(b"images/0\n.jpg"), r"images/0\n.jpg: a name with characters that cannot be printed"),
    "escape": (lambda: named(b"images/\x1b[2J"), r"images/\x1b[2J: a name with characters that cannot be printed"),
    "right-to-left": (lambda: beside("images/\u202egpj.0"), r"images/\u202egpj.0: a name with characters"),
    "not-utf-8": (lambda: beside("imagés").replace("imagés".encode(), b"imag\xff\xfes"), "a name that is not UTF-8"),
    "long-name": (lambda: beside("x" * 300), "a name of 300 characters, at most 240"),
    "deep-name": (lambda: beside("a/" * 20 + "x"), "21 folders deep"),
    "case-collision": (lambda: beside("images/0.JPG"), "images/0.JPG: a name that differs from 'images/0.jpg' in case"),
    "folder-in-other-case": (lambda: beside("Images/3.jpg"), "Images/3.jpg: a name that differs from 'images' in case"),
    "file-inside-a-file": (lambda: beside("images/0.jpg/x"), "a file inside a file"),
    "double": (lambda: named(b"images/0.jpg"), "images/0.jpg: a name that is there already"),
    "two-suffixes": (lambda: beside("images/0.png", PICTURE_PNG), "images/0.png: there under another name already"),
    # Kinds.
    "link": (lambda: beside(member("images/3.jpg", stat.S_IFLNK | 0o777), b"/etc/passwd"), "a symbolic link"),
    "link-for-a-picture": (
        lambda: zipped({member("images/0.jpg", stat.S_IFLNK | 0o777): b"1.jpg"}),
        "images/0.jpg: a symbolic link; put the file itself there",
    ),
    "device": (lambda: beside(member("null", stat.S_IFCHR | 0o666), b""), "null: a character device"),
    "fifo": (lambda: beside(member("pipe", stat.S_IFIFO | 0o666), b""), "pipe: a FIFO"),
    "socket": (lambda: beside(member("s", stat.S_IFSOCK | 0o666), b""), "a member of an unknown kind"),
    # What is in it.
    "extra-picture": (lambda: beside("images/3.jpg", PICTURE), "images/3.jpg: not one of the task's files"),
    "extra-program": (lambda: beside("run.py"), "run.py: not one of the task's files"),
    "nested-archive": (lambda: beside("images.zip", ORDINARY), "images.zip: not one of the task's files"),
    "archive-for-a-picture": (lambda: first(ORDINARY), "images/0.jpg: a zip; save it as JPEG or PNG"),
    "missing": (
        lambda: zipped({"images/0.jpg": PICTURE, "images/2.jpg": PICTURE}),
        "images/1: missing; put it into the archive, as .jpg or .png",
    ),
    "no-folder": (
        lambda: zipped({name[7:]: data for name, data in PICTURES.items()}),
        "0.jpg, 1.jpg, 2.jpg: not one of the task's",
    ),
    "folder-twice": (lambda: zipped({f"images/{n}": d for n, d in PICTURES.items()}), "images/images/2.jpg: not one"),
    "two-folders": (
        lambda: zipped({f"{n}/{name}": PICTURE for n, name in enumerate(LAYOUT.names)}),
        "1/images/1.jpg, 2/images/2.jpg: outside the folder 0/, which holds the others",
    ),
    "folder-then-none": (
        lambda: zipped({"mine/images/0.jpg": PICTURE, "images/1.jpg": PICTURE}),
        "images/1.jpg: outside the folder mine/",
    ),
    "many-problems": (
        lambda: beside("label.txt", "".join(f"{n}.jpg {n}\n" for n in range(3, 63)).encode()),
        "archive: and 41 more problems like these",
    ),
    "metadata-too-large": (lambda: first(with_segment(0xFE, bytes(65000)) + bytes(9000)), "images/0.jpg: 7"),
    # label.txt.
    "other-label": (
        lambda: beside("label.txt", LABELS.replace("0.jpg 7", "0.jpg 3").encode()),
        "label.txt line 1: 0.jpg is '3', the task says '7'",
    ),
    "label-left-out": (lambda: beside("label.txt", LABELS[8:].encode()), "label.txt: 1 of the task's pictures are not"),
    "label-twice": (
        lambda: beside("label.txt", (LABELS + "0.jpg 7\n").encode()),
        "label.txt line 4: '0.jpg' is listed",
    ),
    "label-under-two-names": (
        lambda: beside("label.txt", (LABELS + "0.png 7\n").encode()),
        "label.txt line 4: '0.png' is no picture of the task, or listed twice",
    ),
    "label-of-nothing": (
        lambda: beside("label.txt", (LABELS + "9.jpg 7").encode()),
        "'9.jpg' is no picture of the task",
    ),
    "label-of-a-path": (lambda: beside("label.txt", (LABELS + "../9 7").encode()), "'../9 7' is not `name class`"),
    "label-with-escapes": (lambda: beside("label.txt", b"0.jpg \x1b[2J\n"), r"0.jpg is '\x1b[2J'"),
    "labels-not-utf-8": (lambda: beside("label.txt", b"\xff\xfe0"), "label.txt: not UTF-8"),
    "labels-empty": (lambda: beside("label.txt", b""), "label.txt: 3 of the task's pictures are not listed"),
    # Pictures.
    "picture-empty": (lambda: first(b""), "images/0.jpg: an empty file"),
    "picture-text": (lambda: first(b"hello"), "images/0.jpg: no picture"),
    "picture-gif": (lambda: first(encoded(PIXELS[0], "GIF")), "images/0.jpg: a GIF"),
    "picture-bmp": (lambda: first(encoded(PIXELS[0], "BMP")), "images/0.jpg: a BMP"),
    "picture-webp": (lambda: first(encoded(PIXELS[0], "WEBP")), "images/0.jpg: a WebP"),
    "picture-tiff": (lambda: first(encoded(PIXELS[0], "TIFF")), "images/0.jpg: a TIFF"),
    "picture-pdf": (lambda: first(b"%PDF-1.7" + PICTURE), "images/0.jpg: a PDF"),
    "picture-array": (lambda: first(array_file(PIXELS[0])), "images/0.jpg: a NumPy array"),
    "wrong-size": (
        lambda: first(encoded(PIXELS[0][:, :4], "JPEG")),
        "images/0.jpg: 4 x 6 pixels, and has to be 8 x 6",
    ),
    "turned": (lambda: first(encoded(PIXELS[0].transpose(1, 0, 2), "JPEG")), "images/0.jpg: 6 x 8 pixels"),
    "grey-jpeg": (lambda: first(encoded(PIXELS[0], "JPEG", "L")), "images/0.jpg: grey, and has to be in colour"),
    "grey-png": (lambda: first(encoded(PIXELS[0], "PNG", "L")), "images/0.jpg: grey, and has to be in colour"),
    "cmyk": (lambda: first(encoded(PIXELS[0], "JPEG", "CMYK")), "images/0.jpg: a CMYK picture; save it in RGB or grey"),
    "palette": (lambda: first(encoded(PIXELS[0], "PNG", "P")), "images/0.jpg: a PNG with a palette"),
    "alpha": (lambda: first(encoded(PIXELS[0], "PNG", "RGBA")), "images/0.jpg: a PNG with an alpha channel"),
    "grey-alpha": (lambda: first(encoded(PIXELS[0], "PNG", "LA")), "images/0.jpg: a PNG with an alpha channel"),
    "transparent-colour": (lambda: first(with_chunk(chunk(b"tRNS", bytes(6)))), "a PNG with a transparent colour"),
    "16-bit": (lambda: first(png(bits=16)), "images/0.jpg: 16 bits a value; save it with 8 bits"),
    "1-bit": (lambda: first(encoded(PIXELS[0], "PNG", "1")), "images/0.jpg: 1 bits a value"),
    "colour-type-7": (lambda: first(png(colour=7)), "images/0.jpg: a PNG of the colour type 7"),
    "interlaced": (lambda: first(png(lace=1)), "images/0.jpg: an interlaced PNG"),
    "animated": (
        lambda: first(
            encoded(PIXELS[0], "PNG", save_all=True, append_images=[Image.fromarray(PIXELS[1])], default_image=False)
        ),
        "images/0.jpg: a PNG with an animation",
    ),
    "multi-picture-jpeg": (
        lambda: first(encoded(PIXELS[0], "MPO", save_all=True, append_images=[Image.fromarray(PIXELS[1])])),
        "bytes after the end of the picture",
    ),
    "png-of-30000-a-side": (
        lambda: first(png(size=(30000, 30000))),
        "images/0.jpg: 30000 x 30000 pixels, and has to be 8 x 6",
    ),
    "png-of-no-size": (lambda: first(png(size=(0, 0))), "images/0.jpg: 0 x 0 pixels"),
    "jpeg-of-65535-a-side": (lambda: first(frame(width=65535, height=65535)), "images/0.jpg: 65535 x 65535 pixels"),
    "jpeg-of-no-height": (lambda: first(frame(height=0)), "images/0.jpg: 8 x 0 pixels"),
    "jpeg-of-12-bits": (lambda: first(frame(bits=12)), "images/0.jpg: 12 bits a value"),
    "jpeg-of-2-components": (lambda: first(frame(components=2)), "images/0.jpg: a JPEG of 2 components"),
    "jpeg-lossless": (lambda: first(frame(marker=0xC3)), "images/0.jpg: a lossless, hierarchical or arithmetically"),
    "jpeg-arithmetic": (lambda: first(frame(marker=0xC9)), "images/0.jpg: a lossless, hierarchical or arithmetically"),
    "jpeg-two-frames": (
        lambda: first(with_segment(0xC0, b"\x08" + struct.pack(">2H", HEIGHT, WIDTH) + b"\x01\x01\x11\x00")),
        "images/0.jpg: a JPEG of several frames",
    ),
    "jpeg-two-pictures": (
        lambda: first(PICTURE[:-2] + PICTURE),
        "images/0.jpg: a JPEG with a segment that is cut short",
    ),
    "jpeg-unknown-segment": (lambda: first(with_segment(0xDC, bytes(2))), "images/0.jpg: a JPEG with a segment of the"),
    "jpeg-garbage-between": (lambda: first(PICTURE[:2] + b"xx" + PICTURE[2:]), "images/0.jpg: no picture"),
    "jpeg-without-end": (lambda: first(PICTURE[:-2]), "images/0.jpg: a JPEG without an end"),
    "jpeg-cut": (lambda: first(PICTURE[:300]), "images/0.jpg: a JPEG with"),
    "jpeg-header-only": (lambda: first(b"\xff\xd8\xff\xd9"), "images/0.jpg: a JPEG without pixels"),
    "jpeg-bytes-after": (lambda: first(PICTURE + b"x"), "images/0.jpg: 1 bytes after the end of the picture"),
    "jpeg-and-zip": (lambda: first(PICTURE + zipped({"x": b"x"})), "bytes after the end of the picture"),
    "jpeg-many-scans": (
        lambda: first(PICTURE[:-2] + PICTURE[PICTURE.index(b"\xff\xda") : -2] * 64 + b"\xff\xd9"),
        "images/0.jpg: scans before its frame, or more than 64",
    ),
    "jpeg-long-fill": (lambda: first(PICTURE[:-2] + b"\xff" * 50000), "images/0.jpg: a JPEG without an end"),
    "jpeg-without-tables": (
        lambda: first(
            PICTURE[:2]
            + PICTURE[PICTURE.index(b"\xff\xc0") : PICTURE.index(b"\xff\xc4")]
            + PICTURE[PICTURE.index(b"\xff\xda") :]
        ),
        "images/0.jpg: it cannot be decoded",
    ),
    "png-bytes-after": (lambda: first(PICTURE_PNG + b"x"), "images/0.jpg: 1 bytes after the end of the picture"),
    "png-without-end": (lambda: first(PICTURE_PNG[:-12]), "images/0.jpg: a PNG without an end"),
    "png-cut": (lambda: first(PICTURE_PNG[:60]), "images/0.jpg: a PNG without an end"),
    "png-signature-only": (lambda: first(PICTURE_PNG[:8]), "images/0.jpg: a PNG without an end"),
    "png-no-header": (lambda: first(PICTURE_PNG[:8] + chunk(b"IEND", b"")), "images/0.jpg: a PNG without a header"),
    "png-two-headers": (lambda: first(with_chunk(PICTURE_PNG[8:33])), "images/0.jpg: a PNG with a chunk that is not"),
    "png-unknown-chunk": (
        lambda: first(with_chunk(chunk(b"QQQQ", b""))),
        "images/0.jpg: a PNG with a chunk that is not",
    ),
    "png-checksum": (
        lambda: first(PICTURE_PNG[:-5] + b"\0" + PICTURE_PNG[-4:]),
        "images/0.jpg: a PNG with a wrong check",
    ),
    "png-huge-chunk": (
        lambda: first(PICTURE_PNG[:33] + b"\xff\xff\xff\xffIDAT" + PICTURE_PNG[41:]),
        "images/0.jpg: a PNG without an end",
    ),
    "png-no-rows": (lambda: first(png(zlib.compress(b""))), "images/0.jpg: more or fewer rows"),
    "png-rows-bomb": (lambda: first(png(zlib.compress(bytes(12 * 1024**2)))), "images/0.jpg: more or fewer rows"),
    "png-rows-cut": (lambda: first(png(zlib.compress(bytes(150))[:-5])), "images/0.jpg: more or fewer rows"),
    "png-bytes-after-rows": (
        lambda: first(png(zlib.compress(bytes(HEIGHT * (1 + 3 * WIDTH))) + b"x")),
        "images/0.jpg: more or fewer rows",
    ),
    "png-rows-not-compressed": (lambda: first(png(b"hello")), "images/0.jpg: rows that cannot be inflated"),
    "png-filter-9": (
        lambda: first(png(zlib.compress((b"\x09" + bytes(3 * WIDTH)) * HEIGHT))),
        "images/0.jpg: it cannot be decoded",
    ),
    "png-rows-in-two-places": (
        lambda: first(PICTURE_PNG[:-12] + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", b"") + chunk(b"IEND", b"")),
        "images/0.jpg: a PNG with rows in two places",
    ),
    # Arrays.
    "array-and-pictures": (lambda: beside("images.npy", array_file(PIXELS)), "images.npy: beside single pictures"),
    "array-of-another-name": (lambda: savez(pictures=PIXELS), "pictures.npy: not one of the task's files"),
    "array-beside-another": (lambda: savez(images=PIXELS, labels=np.arange(3)), "labels.npy: not one of the task's"),
    "array-float": (lambda: savez(images=PIXELS / np.float32(255)), "images.npy: "),
    "array-int8": (lambda: savez(images=PIXELS.view(np.int8)), "images.npy: values of the type '|i1'"),
    "array-channels-first": (
        lambda: savez(images=PIXELS.transpose(0, 3, 1, 2).copy()),
        "an array of shape (3, 3, 6, 8)",
    ),
    "array-too-few": (lambda: savez(images=PIXELS[:2]), "images.npy: an array of shape (2, 6, 8, 3)"),
    "array-shape-lie": (
        lambda: archive_of_array(
            array_header("{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999, 6, 8, 3)}")
        ),
        "images.npy: an array of shape (9999999999, 6, 8, 3)",
    ),
    "array-cut": (lambda: archive_of_array(array_file(PIXELS)[:-1]), "images.npy: 431 values, and its header says"),
    "array-too-long": (lambda: archive_of_array(array_file(PIXELS) + b"x"), "images.npy: 433 values, and its header"),
    "array-pickle": (
        lambda: archive_of_array(array_file(np.array([{}], object), allow_pickle=True)),
        "images.npy: values of the type '|O'",
    ),
    "array-fields": (lambda: savez(images=np.zeros(3, "u1,u1")), "images.npy: an array file with a header that is not"),
    "array-code": (
        lambda: archive_of_array(array_header("__import__('os').system('false')")),
        "images.npy: an array file with a header that is not read here",
    ),
    "array-parentheses": (
        lambda: archive_of_array(array_header("(" * 3000)),
        "images.npy: an array file with a header that is not read here",
    ),
    "array-long-header": (lambda: archive_of_array(array_header("{" + " " * 4200)[:4400]), "a header of 4201 bytes"),
    "array-version-9": (
        lambda: archive_of_array(b"\x93NUMPY\x09\0" + array_file(PIXELS)[8:]),
        "images.npy: no array file of a version that is read here",
    ),
    "array-empty": (lambda: archive_of_array(b""), "images.npy: no array file of a version that is read here"),
    "array-bomb": (
        lambda: zipped({"images.npy": bytes(12 * 1024**2)}, zipfile.ZIP_DEFLATED),
        "images.npy: 12582912 bytes",
    ),
}


@pytest.fixture
def put(tmp_path) -> Callable[[bytes], Path]:
    """Returns the path of a file with these bytes."""

    def put(data: bytes) -> Path:
        (tmp_path / "entry.zip").write_bytes(data)
        return tmp_path / "entry.zip"

    return put


@pytest.fixture
def read(put):
    """Returns what reading an entry gives."""
    return lambda data, layout=LAYOUT: read_picture_archive(put(data), layout)


@pytest.fixture
def refused(read) -> Callable[..., list[str]]:
    """Returns the problems with which an entry is refused, as text; each has its remedy."""

    def refused(data: bytes, layout: PictureLayout = LAYOUT) -> list[str]:
        with pytest.raises(Rejected) as caught:
            read(data, layout)
        assert all(problem.remedy for problem in caught.value.problems if not problem.what.startswith("and "))
        assert str(caught.value).replace("\n", "").isprintable()
        return [str(problem) for problem in caught.value.problems]

    return refused


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", ARCHIVES)
def test_hostile_archives_are_refused_by_name(case, refused, monkeypatch) -> None:
    """Each is refused with one clear problem, from bounded bytes and in bounded memory."""
    make, what = ARCHIVES[case]
    data = make()
    inflated = []
    add_output = SizeLimit.add_output
    monkeypatch.setattr(
        SizeLimit, "add_output", lambda self, piece: (inflated.append(len(piece)), add_output(self, piece))[1]
    )
    tracemalloc.start()
    try:
        problems = refused(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert any(what in problem for problem in problems), problems
    assert len(problems) <= 21
    assert peak < MEMORY
    assert sum(inflated) <= PictureBounds.of(COUNT, PIXELS[0].size).total_bytes + 2**20


MILLION = 1_000_000
NAME_BYTES = 6


@pytest.fixture(scope="module")
def million(tmp_path_factory) -> Path:
    """A zip of a million empty files, each with its header and its place in the list, as far as the end record."""
    numbers = np.arange(MILLION)
    digits = (numbers[:, None] // 10 ** np.arange(NAME_BYTES)[::-1] % 10 + ord("0")).astype(np.uint8)
    sizes = [("sums", "<u4", 3), ("named", "<u2"), ("extra", "<u2")]
    name = [("name", "u1", NAME_BYTES)]
    local = np.zeros(MILLION, [("mark", "S4"), ("head", "u1", 10), *sizes, *name])
    central = np.zeros(
        MILLION, [("mark", "S4"), ("head", "u1", 12), *sizes, ("more", "u1", 10), ("offset", "<u4"), *name]
    )
    local["mark"], central["mark"] = b"PK\x03\x04", b"PK\x01\x02"
    central["offset"] = numbers * local.itemsize
    for records in (local, central):
        records["named"], records["name"] = NAME_BYTES, digits
    path = tmp_path_factory.mktemp("million") / "entry.zip"
    path.write_bytes(local.tobytes() + central.tobytes())
    return path


def zip_end(count: int, length: int, offset: int, *, wide: bool) -> bytes:
    """Returns the end of a zip, with a 64-bit record before it where `wide`."""
    if not wide:
        return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count % 2**16, count % 2**16, length, offset, 0)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, offset + length, 1)
    return record + locator + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, *(2**32 - 1,) * 2, 0)


@pytest.mark.slow
def test_the_million_is_a_zip_for_others(million, put) -> None:
    """Python's reader finds the last of a list of 10 in it, so that what is refused below is no broken file."""
    head, count = 30 + NAME_BYTES, 10
    with million.open("rb") as file:
        local = file.read(count * head)
        file.seek(MILLION * head)
        central = file.read(count * (46 + NAME_BYTES))
    path = put(local + central + zip_end(count, len(central), len(local), wide=True))
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[-1] == "000009"
        assert archive.testzip() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "wide", "what"),
    [
        pytest.param(MILLION, True, "archive: a 64-bit zip", id="counted-in-64-bits"),
        pytest.param(MILLION, False, "archive: 16960 members, at most 73", id="counted-modulo-65536"),
        pytest.param(COUNT, False, "archive: a list of 52000000 bytes, at most 16777216", id="a-small-count"),
    ],
)
def test_a_million_members_are_one_refusal(million, count, wide, what) -> None:
    """Neither the list nor a name is read: the end of the file says enough, in the memory of any other refusal."""
    offset = MILLION * (30 + NAME_BYTES)
    length = MILLION * (46 + NAME_BYTES)
    with million.open("r+b") as file:
        file.truncate(offset + length)
        file.seek(0, 2)
        file.write(zip_end(count, length, offset, wide=wide))
    bounds = PictureBounds.of(COUNT, PIXELS[0].size)
    large = replace(LAYOUT, bounds=replace(bounds, total_bytes=million.stat().st_size))
    tracemalloc.start()
    try:
        with pytest.raises(Rejected) as caught:
            read_picture_archive(million, large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    [problem] = caught.value.problems
    assert what in str(problem)
    assert peak < MEMORY
    with pytest.raises(Rejected, match="bytes, at most 1246912"):
        read_picture_archive(million, LAYOUT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_archives_are_refused_in_a_small_address_space(tmp_path) -> None:
    """A process that may map 8 MiB more than it has reads all of them, so that no library takes more either."""
    for number, (make, _) in enumerate(ARCHIVES.values()):
        (tmp_path / f"{number}.zip").write_bytes(make())
    program = """
import resource, sys
from pathlib import Path
import numpy as np
from PIL import Image, JpegImagePlugin, PngImagePlugin
from orchestrator.errors import Rejected
from orchestrator.intake.picture_archive import PictureLayout, read_picture_archive
from orchestrator.domain.submissions import PictureFormat
layout = PictureLayout(
    tuple(f"images/{n}.jpg" for n in range(3)), 6, 8, 3, frozenset(PictureFormat), ("7", "0", "9")
)
mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 8 * 2**20,) * 2)
try:
    bytearray(12 * 2**20)
    print("unlimited")
except MemoryError:
    pass
for path in Path(sys.argv[1]).iterdir():
    try:
        read_picture_archive(path, layout)
    except Rejected:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused"] * len(ARCHIVES), done.stdout + done.stderr


def test_pictures_come_in_the_order_of_the_task(read) -> None:
    """u8 [n, c, h, w], whatever their order in the zip, with digests and what decoded them."""
    data = zipped(dict(reversed(PICTURES.items())), zipfile.ZIP_DEFLATED)
    found = read(data)
    decoded = [np.asarray(Image.open(io.BytesIO(picture))) for picture in PICTURES.values()]
    assert (found.pixels == np.stack(decoded).transpose(0, 3, 1, 2)).all()
    assert (found.pixels.dtype, found.pixels.flags.c_contiguous) == (np.uint8, True)
    assert found.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert found.decoder.startswith(f"pillow {Image.__version__}, libjpeg")


PNGS = {f"images/{n}.png": encoded(PIXELS[n]) for n in range(COUNT)}
READ: dict[str, Callable[[], bytes]] = {
    "png": lambda: zipped(PNGS),
    "png-named-jpg": lambda: zipped({f"images/{n}.jpg": encoded(PIXELS[n]) for n in range(COUNT)}),
    "one-folder": lambda: zipped({f"mine/{name}": data for name, data in PNGS.items()}),
    "one-folder-listed": lambda: zipped(
        {"mine/": b"", "mine/images/": b""} | {f"mine/{n}": d for n, d in PNGS.items()}
    ),
    "dot-folder": lambda: zipped({f"./{name}": data for name, data in PNGS.items()}),
    "macos": lambda: zipped(
        {f"mine/{name}": data for name, data in PNGS.items()}
        | {"mine/.DS_Store": b"x", "__MACOSX/mine/images/._0.png": b"x", "mine/images/._1.png": b"x"}
    ),
    "windows": lambda: zipped(PNGS | {"images/Thumbs.db": b"x", "desktop.ini": b"x"}),
    "labels": lambda: zipped(PNGS | {"label.txt": LABELS.encode()}),
    "labels-in-another-order": lambda: zipped(PNGS | {"label.txt": b"\xef\xbb\xbf2.png  9\r\n\r\n0.png 7\r\n1.png 0"}),
    "comment": lambda: zipped(PNGS, comment=b"x" * 65535),
    "metadata": lambda: zipped(PNGS | {"images/0.png": with_chunk(chunk(b"tEXt", b"a\0b") + chunk(b"gAMA", bytes(4)))}),
    "metadata-bomb": lambda: zipped(
        PNGS | {"images/0.png": with_chunk(chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(12 * 1024**2))))}
    ),
    "colour-profile": lambda: zipped(PNGS | {"images/0.png": with_chunk(chunk(b"iCCP", b"no\0\0profile"))}),
    "suggested-palette": lambda: zipped(PNGS | {"images/0.png": with_chunk(chunk(b"PLTE", bytes(7)))}),
    "array": lambda: savez(images=PIXELS),
    "array-compressed": lambda: zipped({"images.npy": array_file(PIXELS)}, zipfile.ZIP_DEFLATED),
    "array-in-fortran-order": lambda: savez(images=np.asfortranarray(PIXELS)),
    "array-version-2": lambda: archive_of_array(array_file(PIXELS, version=(2, 0))),
    "array-in-a-folder": lambda: zipped({"mine/images.npy": array_file(PIXELS)}),
}


@pytest.mark.parametrize("case", READ)
def test_what_users_send_is_read(case, read) -> None:
    """Lossless pictures arrive exactly, with what tools add passed over."""
    assert (read(READ[case]()).pixels == PIXELS.transpose(0, 3, 1, 2)).all()


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_picture_is_not_turned(read, orientation) -> None:
    """Pixels are as they are stored, whatever EXIF says of them."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = encoded(PIXELS[0], "JPEG", quality=95, subsampling=0, exif=exif)
    assert turned != PICTURE
    assert (read(first(turned)).pixels == read(ORDINARY).pixels).all()


@pytest.mark.parametrize(
    ("marker", "body"),
    [
        (0xE2, b"ICC_PROFILE\0\x01\x01" + bytes(200)),
        (0xE2, b"MPF\0" + b"II*\0" + bytes(50)),
        (0xE1, b"Exif\0\0" + b"II*\0" + b"\xff" * 100),
        (0xED, b"Photoshop 3.0\0" + b"8BIM" * 20),
        (0xFE, zipped({"x": b"x"})),
        (0xE0, b"JFXX\0" + bytes(10)),
    ],
    ids=["icc", "mpf", "exif", "photoshop", "comment-with-a-zip", "jfxx"],
)
def test_metadata_decides_nothing(read, marker, body) -> None:
    """Segments beside the pixels never reach a parser, damaged or not."""
    assert (read(first(with_segment(marker, body))).pixels == read(ORDINARY).pixels).all()


@pytest.mark.parametrize(
    "options", [{"progressive": True}, {"subsampling": 2}, {"quality": 1}, {"restart_marker_rows": 1}]
)
def test_usual_jpegs_are_read_as_pillow_reads_them(read, options) -> None:
    """Progressive, subsampled, coarse and with restarts: what is left out of a file decides no pixel."""
    data = encoded(PIXELS[0], "JPEG", **options)
    expected = np.asarray(Image.open(io.BytesIO(data))).transpose(2, 0, 1)
    assert (read(first(data)).pixels[0] == expected).all()


def test_an_rgb_jpeg_keeps_its_colours(read) -> None:
    """A JPEG without a colour transform says so in a segment that stays."""
    data = encoded(PIXELS[0], "JPEG", keep_rgb=True, quality=100)
    assert b"Adobe" in data
    assert np.abs(read(first(data)).pixels[0].astype(int) - PIXELS[0].transpose(2, 0, 1)).max() < 4


def test_a_grey_task_takes_grey_pictures(read, refused) -> None:
    """[n, 1, h, w] from grey files, or from an array with or without a last axis; colour is refused."""
    layout = replace(LAYOUT, channels=1)
    grey = PIXELS[..., 0]
    for data in (
        zipped({f"images/{n}.png": encoded(grey[n]) for n in range(COUNT)}),
        savez(images=grey),
        savez(images=grey[..., None]),
    ):
        assert (read(data, layout).pixels[:, 0] == grey).all()
    assert refused(ORDINARY, layout) == [f"{', '.join(PICTURES)}: in colour, and has to be grey; save it in grey"]


@pytest.mark.parametrize(
    ("formats", "data", "what"),
    [
        (
            {JPEG},
            zipped({f"images/{n}.jpg": encoded(PIXELS[n]) for n in range(COUNT)}),
            "images/2.jpg: PNG data; save it as JPEG",
        ),
        ({JPEG}, zipped(PNGS), "images/2.png: not one of the task's files; remove it, or name it as images/0.jpg"),
        ({PNG}, ORDINARY, "images/2.jpg: JPEG data; save it as PNG"),
        (
            {JPEG, PNG},
            savez(images=PIXELS),
            "images.npy: not one of the task's files; remove it, or name it as images/0",
        ),
        ({NPZ}, zipped(PNGS), "images/2.png: not one of the task's files; remove it, or name it as images.npy"),
        ({NPZ}, ORDINARY, "images/2.jpg: not one of the task's files; remove it, or name it as images.npy"),
    ],
    ids=["png-as-jpg", "png", "jpeg", "array", "png-for-array", "jpeg-for-array"],
)
def test_the_task_says_which_formats_it_takes(refused, formats, data, what) -> None:
    """The first bytes decide the format; any other than the task's is refused with the ones that it takes."""
    assert any(what in problem for problem in refused(data, replace(LAYOUT, formats=frozenset(formats))))


def test_labels_may_be_no_part_of_the_task(refused) -> None:
    """Where the layout has no labels, label.txt is a file like any other."""
    assert refused(beside("label.txt"), replace(LAYOUT, labels=None))[0].startswith("label.txt: not one of the task's")


def test_all_problems_come_at_once(refused) -> None:
    """Missing, extra, wrong-sized and undecodable pictures are named in one error."""
    bad = {"images/0.jpg": b"x", "images/1.jpg": encoded(PIXELS[0][:, :4]), "images/9.jpg": b""}
    assert [problem.split(";")[0] for problem in refused(zipped(bad))] == [
        "images/0.jpg: no picture",
        "images/1.jpg: 4 x 6 pixels, and has to be 8 x 6",
        "images/9.jpg: not one of the task's files",
        "images/2: missing",
    ]


def test_what_is_wrong_with_many_pictures_is_one_problem(refused) -> None:
    """It names all of them, however many there are, and another problem behind them is not lost."""
    bad = {f"images/{n}.txt": b"" for n in range(60)} | {"images/0.jpg": b"x"}
    extra, undecodable, missing = refused(zipped(bad))
    assert extra.startswith(", ".join(f"images/{n}.txt" for n in range(60)) + ": not one of the task's files")
    assert undecodable.startswith("images/0.jpg: no picture")
    assert missing.startswith("images/1, images/2: missing")


def test_names_that_are_shown_are_bounded() -> None:
    """However long a stranger makes them; the rest is counted."""
    problems = ProblemList()
    for number in range(2000):
        problems.add("x" * 100 + f"{number:04}", "extra", "remove it")
    with pytest.raises(Rejected) as caught:
        problems.raise_if_any("entry")
    shown, rest = caught.value.problems
    assert len(shown.place) < 20_000
    assert rest.what == f"and {2000 - len(shown.place.split(', '))} more problems like these"


def test_the_layout_of_a_task_has_its_labels() -> None:
    """Names, size and what label.txt says follow from the samples."""
    samples = Samples(PIXELS.transpose(0, 3, 1, 2), np.array([1, 0, 1]), ("cat", "dog"))
    layout = PictureLayout.of_task(samples, LAYOUT.names, LAYOUT.formats)
    assert layout == replace(LAYOUT, labels=("dog", "cat", "dog"), numbers=("1", "0", "1"))
    spaced = PictureLayout.of_task(replace(samples, classes=("cat", "guide dog")), LAYOUT.names, LAYOUT.formats)
    assert spaced.labels == ("1", "0", "1")


def test_classes_may_be_named_or_numbered(read, refused) -> None:
    """Whoever keeps the numbers of a published label.txt is right, unless numbers are names of classes."""
    samples = Samples(PIXELS.transpose(0, 3, 1, 2), np.array([1, 0, 1]), ("cat", "dog"))
    numbered = beside("label.txt", b"0.jpg 1\n1.jpg cat\n2.jpg 1\n")
    read(numbered, PictureLayout.of_task(samples, LAYOUT.names, LAYOUT.formats))
    swapped = PictureLayout.of_task(replace(samples, classes=("1", "0")), LAYOUT.names, LAYOUT.formats)
    assert refused(numbered, swapped)[0].startswith("label.txt line 1: 0.jpg is '1', the task says '0'")


def test_two_pictures_of_one_name_are_no_layout(read) -> None:
    """A task whose pictures differ in their suffix only cannot be submitted by name."""
    with pytest.raises(ValueError, match=r"two pictures of the task may be named images/0\.png"):
        read(ORDINARY, replace(LAYOUT, names=("images/0.jpg", "images/0.png", "images/1.jpg")))


@pytest.mark.parametrize("place", ["missing", "folder"])
def test_no_file_is_an_error_of_whoever_asks(tmp_path, place) -> None:
    """A path without a regular file is not the entry's fault."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError):
        read_picture_archive(tmp_path / place, LAYOUT)


@given(
    st.sampled_from([ORDINARY, zipped(PNGS), savez(images=PIXELS)]),
    st.lists(st.tuples(st.integers(0), st.binary(max_size=6))),
)
def test_damaged_archives_are_read_or_refused(tmp_path_factory, data, edits) -> None:
    """Whatever is changed in an entry, nothing but a refusal comes out of it."""
    damaged = bytearray(data)
    for at, value in edits:
        place = at % len(damaged)
        damaged[place : place + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.zip"
    path.write_bytes(damaged)
    with suppress(Rejected):
        assert read_picture_archive(path, LAYOUT).pixels.shape == (COUNT, 3, HEIGHT, WIDTH)


@given(st.sampled_from([PICTURE, PICTURE_PNG]), st.integers(0), st.binary(max_size=6))
def test_damaged_pictures_are_read_or_refused(tmp_path_factory, picture, at, value) -> None:
    """Whatever is changed in a picture, nothing but a refusal comes out of it: here with the right checksums."""
    place = at % len(picture)
    path = tmp_path_factory.getbasetemp() / "damaged.zip"
    path.write_bytes(first(picture[:place] + value + picture[place + len(value) :]))
    with suppress(Rejected):
        assert read_picture_archive(path, LAYOUT).pixels.shape == (COUNT, 3, HEIGHT, WIDTH)


@pytest.mark.data
@pytest.mark.parametrize("name", ["test500.zip", "example_attack_pgd20_q95.zip"])
def test_the_published_pictures_are_read(shared_data, name) -> None:
    """The task of the announced contest and an entry for it: 500 JPEGs, decoded as the reference was."""
    folder = shared_data / "cifar10"
    with zipfile.ZipFile(folder / "test500.zip") as archive:
        texts = archive.read("label.txt").decode().split()[1::2]
    names = tuple(f"images/{position}.jpg" for position in range(500))
    found = read_picture_archive(folder / name, PictureLayout(names, 32, 32, 3, frozenset({JPEG}), tuple(texts)))
    stated = (folder / "README.md").read_text().split("in index order:\n")[1].split()[0]
    pixels = np.ascontiguousarray(found.pixels.transpose(0, 2, 3, 1))
    assert (hashlib.sha256(pixels).hexdigest() == stated) == (name == "test500.zip")
