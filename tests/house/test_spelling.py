"""One spelling."""

import re

AMERICAN = re.compile(r"defen" + "se", re.IGNORECASE)
_SIDE_OF_2017 = (f'"{"defen"}{"se"}"',)
_RUNNER_OF_2017 = (f"run_attacks_and_{'defen'}{'se'}s.py", f'"{"defen"}{"se"}s_dir"')
_ACCEPTED = f"`defen{'se'}`"
_ACCEPTED_WORD = f'"defen{"se"}"'
QUOTED: dict[str, tuple[str, ...]] = {
    "CHANGELOG.md": (_ACCEPTED,),
    "bench/peer.py": (*_SIDE_OF_2017, *_RUNNER_OF_2017),
    "docs/migrating-from-nips-2017.md": _SIDE_OF_2017,
    "examples/nips2017/defence_means_2017/metadata.json": _SIDE_OF_2017,
    "images/_base/python/sparring_files.py": _SIDE_OF_2017,
    "images/templates/files/defence/metadata.json": _SIDE_OF_2017,
    "orchestrator/cli/console.py": (_ACCEPTED_WORD,),
    "orchestrator/intake/nips2017_layout.py": _SIDE_OF_2017,
    "tests/cli/test_season.py": (_ACCEPTED, _ACCEPTED_WORD),
}
"""File -> titles and names in it that others spelt so, and the spelling that commands accept."""


def test_defence_is_spelt_as_in_the_rules(texts) -> None:
    """The other side is a *defence* everywhere, but in titles and names of others, which are listed above."""
    assert len(texts) > 100
    found = []
    for path, text in texts.items():
        for title in QUOTED.get(str(path), ()):
            assert title in text, f"{title!r} is not in {path} any more"
            text = text.replace(title, "")  # noqa: PLW2901  what is quoted is not looked at
        found += [f"{path}:{text[: each.start()].count(chr(10)) + 1}" for each in AMERICAN.finditer(text)]
    assert not found
