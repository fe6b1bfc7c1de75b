"""A stranger's Dockerfile as we read it and as the engine does: what is built stands on the bases that we named."""

import io
import itertools
import re
import secrets
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import Rejected
from orchestrator.intake import dockerfile
from orchestrator.sandboxes.base import BuildRequest, ImageStore

pytestmark = [
    pytest.mark.docker,
    pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module"),
]
GOOD, EVIL, MADE = (f"sparring-test/bases:{name}" for name in ("good", "evil", "made"))
MARK = f"test={secrets.token_hex(8)}"
_FROM = re.compile(r"Step \d+/\d+ : FROM\b", re.IGNORECASE)
_IMAGE = re.compile(r" ---> ([0-9a-f]{12})")
READ = {
    "an ARG": f"ARG N={GOOD}\nFROM ${{N}}\n",
    "an ARG twice": f"ARG N={GOOD}\nARG N={EVIL}\nFROM $N\n",
    "an ARG in quotes": f"ARG N=\"{GOOD}\"\nARG M='{EVIL}'\nFROM $N\nFROM $M\n",
    "an ARG in pieces": f"ARG N={GOOD[:-4]}\nFROM ${{N}}evil\n",
    "an ARG in another case": f"ARG n={EVIL}\nARG N={GOOD}\nFROM $N\n",
    "an ARG of a stage": f"ARG N={GOOD}\nFROM scratch\nARG N={EVIL}\nFROM $N\nLABEL a=b\n",
    "an ARG that ENV sets": f"ARG N={GOOD}\nFROM $N\nENV N={EVIL}\nFROM $N\n",
    "tabs": f"ARG\tN={GOOD}\nFROM\t$N\tAS\tb\n",
    "small letters": f"from {GOOD} as B\nfrom b\nlabel a=b\n",
    "stages": f"FROM {GOOD} AS evil\nFROM EVIL\nCOPY --from=0 /x /y\nCOPY --from=Evil /x /z\nFROM {EVIL}\n",
    "a stage that nobody needs": f"FROM {EVIL}\nFROM {GOOD}\nLABEL a=b\n",
    "lines that go on": f"FROM \\\n\n   \n# FROM {EVIL}\n{GOOD}\nLABEL a=b\\  \nFROM={EVIL} \\\n",
    "a comment that does not": f"# on \\\nFROM {EVIL}\n",
    "quotes over lines": f'FROM {GOOD}\nLABEL a="b \\\nFROM {EVIL}"\n',
    "a byte order mark": f"\ufeffFROM {GOOD}\n",
    "carriage returns": f"FROM {GOOD} \\\r\nAS a\r\nFROM a\r\nLABEL a=b\r\n",
    "another syntax": f"# syntax=127.0.0.1:1/evil\nFROM {GOOD}\n",
}
REFUSED = {
    "two in an ARG": f"ARG N={GOOD}\nARG X=1 N={EVIL}\nFROM ${{N}}\n",
    "two in an ARG, with quotes": f'ARG N={GOOD}\nARG X="1" N="{EVIL}"\nFROM ${{N}}\n',
    "two in an ARG, by a tab": f"ARG N={GOOD}\nARG X=1\tN={EVIL}\nFROM ${{N}}\n",
    "two in an ARG, over lines": f"ARG N={GOOD}\nARG X=1 \\\nN={EVIL}\nFROM ${{N}}\n",
    "a quote in an ARG": f'ARG N={GOOD}\nARG N={EVIL[:9]}"{EVIL[9:]}"\nFROM $N\n',
    "a backslash in an ARG": f"ARG N={GOOD}\nARG N={EVIL[:9]}\\{EVIL[9:]}\nFROM $N\n",
    "an ARG of an ARG": f"ARG M={EVIL}\nARG N=$M\nFROM $N\n",
    "a value where there is one": f"ARG N={GOOD}\nFROM ${{N:+{EVIL}}}\n",
    "a value where there is none": f"FROM ${{N:-{EVIL}}}\n",
    "quotes": f'FROM "{EVIL}"\n',
    "a platform": f"FROM --platform=linux/amd64 {EVIL}\n",
    "an image to copy from": f"FROM {GOOD}\nCOPY --from={EVIL} /x /x\n",
    "two carriage returns": f"FROM {GOOD}\r\r\nFROM {EVIL}\r\n",
    "another escape": f"# escape=`\nFROM {GOOD}\nLABEL a=b\\\nFROM {EVIL}\n",
}


@pytest.fixture(scope="module")
def build(backend, engine) -> Iterator[Callable[[str], list[str]]]:
    """Returns a function that builds a Dockerfile and gives the bases that the engine's builder took, in order."""
    workshop: ImageStore = backend.image_store()
    recipes = {name: f'FROM scratch\nCOPY x /x\nLABEL {MARK} base={name}\nCMD ["/x"]\n' for name in (GOOD, EVIL)}
    bases = {workshop.build(_recipe(text, name), lambda _: None)[7:19]: name for name, text in recipes.items()}

    def build(text: str) -> list[str]:
        heard: list[str] = []
        workshop.build(_recipe(text, MADE), heard.append)
        after = [_IMAGE.match(second) for first, second in itertools.pairwise(heard) if _FROM.match(first)]
        return [bases[found[1]] for found in after if found and found[1] in bases]

    yield build
    for name in (MADE, GOOD, EVIL):
        workshop.untag(name)
    while left := engine.images.list(filters={"label": MARK, "dangling": True}):  # earlier ones, and stages
        for image in left:
            engine.images.remove(image.id)


def _recipe(text: str, tag: str) -> BuildRequest:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in {"Dockerfile": text.encode(), "x": b"x"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return BuildRequest(iter((made.getvalue(),)), tag, ())


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_the_bases_that_we_name_are_those_that_are_built_on(build, tmp_path: Path, text: str) -> None:
    """Whatever is read here, the engine takes the same images for it: no other, and no fewer."""
    (tmp_path / "Dockerfile").write_bytes(text.encode())
    named = dockerfile.read_dockerfile(tmp_path).bases
    assert set(build(text)) == set(named) <= {GOOD, EVIL}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_the_engine_would_build_on_another_is_refused(build, tmp_path: Path, text: str) -> None:
    """The engine takes each of these, with an image that a plain reading does not name; we refuse it."""
    (tmp_path / "Dockerfile").write_bytes(text.encode())
    assert build(text)
    with pytest.raises(Rejected):
        dockerfile.read_dockerfile(tmp_path)
