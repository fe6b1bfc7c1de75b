"""Docker's own file of credentials."""

import pytest

from orchestrator.errors import UsageError
from orchestrator.oci.credentials import Credentials

from .fake_registry import auth, logged_in


def test_the_longest_path_of_dockers_file_counts(tmp_path):
    """An entry for a repository goes before one for its registry; docker.io goes by its old name."""
    auths = {
        "r.example": auth("all", "1"),
        "https://r.example/team/": auth("team", "2"),
        "https://index.docker.io/v1/": {"username": "hub", "password": "3"},
        "bare.example": {"identitytoken": "x"},
    }
    known = logged_in(tmp_path, auths)
    assert known.login_for("r.example", "other/x") == ("all", "1")
    assert known.login_for("r.example", "team/x") == ("team", "2")
    assert known.login_for("r.example", "teams/x") == ("all", "1")
    assert known.login_for("docker.io", "library/x") == ("hub", "3")
    assert known.login_for("bare.example", "x") is None
    assert known.login_for("r.example.evil", "x") is None
    assert "3" not in repr(known).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"auths": 1}', '{"auths": {"a": {"auth": "%%%"}}}', '{"auths": {"a": {"auth": "/w=="}}}']
)
def test_a_damaged_file_of_credentials_is_named(text, tmp_path):
    """The operator learns which file it is, and none of its words."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"docker's config.json"):
        Credentials.from_docker_config({"DOCKER_CONFIG": str(tmp_path)})


def test_no_file_of_credentials_is_nobody(tmp_path):
    """Without a file everything is asked as nobody."""
    assert Credentials.from_docker_config({"HOME": str(tmp_path)}) == Credentials()


def test_a_helper_is_asked_for_credentials(tmp_path, monkeypatch):
    """A program that keeps passwords is asked for the one of this registry; one that has none means nobody."""
    program = tmp_path / "docker-credential-kept"
    program.write_text(
        '#!/bin/sh\nread host\n[ "$host" = r.example ] || exit 1\n'
        'echo "{\\"Username\\": \\"me\\", \\"Secret\\": \\"from $1 $host\\"}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    known = logged_in(tmp_path, {}, credHelpers={"r.example": "kept"}, credsStore="kept")
    assert known.login_for("r.example", "x") == ("me", "from get r.example")
    assert known.login_for("other.example", "x") is None
    for helper in ("missing", "../sh", "a b"):
        with pytest.raises(UsageError, match=r"config.json"):
            logged_in(tmp_path, {}, credHelpers={"r.example": helper}).login_for("r.example", "x")
