"""What sparring/service is made of: beside the runner's packages, exact versions of what site and PostgreSQL need."""

import tomllib

from packaging.requirements import Requirement

from tests.images.test_runner import ROOT, locked, spelt


def test_the_lock_holds_what_the_extras_require() -> None:
    """Each requirement of `web` and `postgresql` is named in a version that fits, and nothing twice."""
    lines = (ROOT / "images" / "service" / "requirements.lock").read_text().splitlines()
    versions = {spelt(name): version for name, version in (line.split("==") for line in lines if line[0] != "#")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in [*extras["web"], *extras["postgresql"]]:
        needed = Requirement(line)
        assert needed.specifier.contains(versions[spelt(needed.name)]), line
    assert versions.keys() & locked().keys() == set()
