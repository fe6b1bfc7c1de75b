"""The players that speak the protocol themselves hear what is odd, damaged or hostile, and stay in one piece."""

import json
import os
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from orchestrator.domain.submissions import Side
from orchestrator.intake.scaffold import Framework
from orchestrator.protocol import frames

ROOT = Path(__file__).parents[2]
NO_HELPER = pytest.mark.parametrize("framework", [Framework.BARE, Framework.C, Framework.JAVASCRIPT])
CHECKED = pytest.mark.parametrize("framework", [Framework.C, Framework.JAVASCRIPT])
STRICT = "-g -O1 -std=c11 -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -fsanitize=address,undefined"
DAMAGE = re.compile(rb"Sanitizer|runtime error")
HELLO = {
    "type": "hello",
    "id": 1,
    "protocol": 1,
    "role": "defence",
    "task": {
        "name": "t",
        "classes": ["a", "b", "c", "d"],
        "shape": [1, 2, 2],
        "budget": {"norm": "linf", "epsilon": 8.0},
    },
    "limits": {"batch": 64, "payload_bytes": 4096},
    "seed": 7,
}
QUESTION = {"type": "classify", "id": 2, "dtype": "u8", "shape": [2, 1, 2, 2]}
BYE = frames.encode_frame({"type": "bye", "id": 3})


@pytest.fixture(scope="session")
def talk(launch):
    """Starts a folder's player, says these bytes and nothing more, and returns how it ended."""

    def say(folder: Path, data: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(launch(folder), cwd=folder, input=data, capture_output=True, timeout=60, check=False)

    return say


@CHECKED
@pytest.mark.parametrize(
    "data",
    [
        b"hello, player\n",
        struct.pack("<4sII", b"SPI1", 2, 0) + b"{]",
        struct.pack("<4sII", b"SPI1", 9, 0) + b'{"id":1}}',
        struct.pack("<4sII", b"SPI1", 10, 0) + b'{"id": NaN',
        struct.pack("<4sII", b"SPI1", 4, 0) + b'{"a"',
        frames.encode_frame(HELLO) + frames.encode_frame(QUESTION, bytes(7)) + BYE,
        frames.encode_frame(HELLO) + frames.encode_frame(QUESTION | {"shape": [2**31 - 1] * 4}, bytes(8)) + BYE,
    ],
    ids=["no-magic", "no-json", "more-behind", "nan", "cut", "short-payload", "giant-shape"],
)
def test_what_is_no_question_ends_the_player(template, talk, framework, data):
    """Bytes that are no question get no answer: the player ends, or reports a fault, with a word in its log."""
    done = talk(template(Side.DEFENCE, framework), data)
    assert b'"answers"' not in done.stdout
    assert b'"fault"' in done.stdout or done.returncode == 1, done
    assert done.stderr.strip()


@NO_HELPER
def test_json_is_read_whatever_its_looks(template, talk, framework):
    """Key order, white space, unknown keys, deep values, escapes and empty names make no difference."""
    odd = json.dumps(HELLO | {"zz": [{"type": "bye", "id": [[], {}, -1.5e3, True, None]}]}, indent=2).encode()
    odd = odd.replace(b'"role"', b'"r\\u006fle"').replace(b'"d"', b'"\\"]}\\\\\\ud83d\\ude00"')
    text = b'\t{ "shape" : [ 2 , 1 , 2 , 2 ] , "unknown" : {"type": "hello"} , "type"\r\n:"classify","id":2 } '
    data = struct.pack("<4sII", b"SPI1", len(odd), 0) + odd
    data += struct.pack("<4sII", b"SPI1", len(text), 8) + text + bytes([0, 0, 0, 0, 255, 255, 255, 255]) + BYE
    done = talk(template(Side.DEFENCE, framework), data)
    assert done.returncode == 0, done.stderr
    decoder = frames.FrameDecoder(4096)
    decoder.feed(done.stdout)
    assert decoder.next_frame().header["type"] == "ready"
    assert decoder.next_frame().header["labels"] == [0, 3]


@pytest.fixture(scope="session")
def watched(template, tmp_path_factory) -> dict[Side, Path]:
    """The C templates, compiled with every warning an error and with the compiler's memory checks."""
    folders = {}
    for side in Side:
        folder = tmp_path_factory.mktemp("watched") / side
        shutil.copytree(template(side, Framework.C), folder, ignore=shutil.ignore_patterns("player"))
        words = ["gcc", *STRICT.split(), "-o", "player", "player.c", "protocol.c", "-lm"]
        subprocess.run(words, cwd=folder, check=True, timeout=60)
        folders[side] = folder
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("side", list(Side))
def test_the_c_player_survives_what_is_said_to_it(watched, talk, side):
    """Under the compiler's memory checks, conversations with random damage end in 0 or 1, and damage no memory."""
    chance = random.Random(11)
    pixels, asked = bytes(range(8)), {Side.ATTACK: "perturb", Side.DEFENCE: "classify"}[side]
    hello, question = HELLO | {"role": str(side)}, QUESTION | {"type": asked, "labels": [1, 3]}
    answered = 0
    for _ in range(400 if os.environ.get("SPARRING_SOAK") else 60):
        texts = [bytearray(json.dumps(each).encode()) for each in (hello, question)]
        for _ in range(chance.randrange(4)):
            text = chance.choice(texts)
            at = chance.randrange(len(text))
            text[at : at + chance.randrange(3)] = chance.choice(
                [b"", b'"', b"[", b"}", b"\\u00", b"-1", b"9" * 30, b"\0", b"null", bytes([chance.randrange(256)])]
            )
        data = b"".join(
            struct.pack("<4sII", b"SPI1", len(text), len(payload)) + text + payload
            for text, payload in zip(texts, (b"", pixels), strict=True)
        )
        done = talk(watched[side], data + BYE)
        assert done.returncode in {0, 1}, (data, done.stderr.decode())
        assert not DAMAGE.search(done.stderr), (data, done.stderr.decode())
        answered += b'"candidates"' in done.stdout or b'"answers"' in done.stdout
    assert answered > 10


def test_the_c_player_knows_every_question_of_the_vectors(watched, talk):
    """Of the specification's frames a greeting is answered; without one, anything else by fault or by leaving."""
    vectors = ROOT / "schemas" / "vectors"
    for entry in json.loads((vectors / "vectors.json").read_text())["valid"]:
        if entry["sender"] == "orchestrator":
            done = talk(watched[Side.DEFENCE], (vectors / entry["file"]).read_bytes())
            assert not DAMAGE.search(done.stderr)
            assert done.returncode in {0, 1}
            assert (b'"ready"' in done.stdout) == (entry["name"] == "hello-defence"), entry["name"]
