"""The organizers' key and what it signs."""

import pytest

from orchestrator.errors import StoreFault
from orchestrator.signatures import SigningKey, fingerprint, verify_signature


def test_a_key_is_drawn_once(tmp_path) -> None:
    """Whoever draws again or reads the file gets the same key, and nobody but its owner can read it."""
    first, second = (SigningKey.read_or_generate(tmp_path / "key") for _ in range(2))
    assert first.public_key == second.public_key == SigningKey.read_file(tmp_path / "key").public_key
    assert first.public_key != SigningKey.read_or_generate(tmp_path / "other").public_key
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert first.public_key not in (tmp_path / "key").read_bytes()


def test_a_signature_holds_for_its_bytes_alone(tmp_path) -> None:
    """One bit more or less anywhere, in the bytes, the signature or the key, and it does not hold."""
    key = SigningKey.read_or_generate(tmp_path / "key")
    data = b"digits, one received"
    signature = key.sign(data)
    assert verify_signature(key.public_key, signature, data)
    for place in range(len(data)):
        assert not verify_signature(key.public_key, signature, flipped(data, place))
    for place in range(len(signature)):
        assert not verify_signature(key.public_key, flipped(signature, place), data)
    assert not verify_signature(SigningKey.read_or_generate(tmp_path / "other").public_key, signature, data)


def flipped(data: bytes, place: int) -> bytes:
    """Returns the bytes with one bit changed."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(("public", "signature"), [(b"", b"0" * 64), (b"0" * 31, b"0" * 64), (b"0" * 32, b"0" * 63)])
def test_what_is_no_key_and_no_signature_does_not_hold(public, signature) -> None:
    """Wrong lengths are no error but a signature that does not hold."""
    assert not verify_signature(public, signature, b"data")


def test_a_vector_of_the_standard() -> None:
    """The second test of RFC 8032, section 7.1: this is Ed25519 and no variant of it."""
    private = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    key = SigningKey(private)
    assert (key.public_key, key.sign(b"\x72")) == (public, signature)
    assert verify_signature(public, signature, b"\x72")


def test_a_fingerprint_is_what_people_compare() -> None:
    """It is the SHA-256 of the public key, in words that say so."""
    assert fingerprint(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_key_whose_drawing_was_killed_is_drawn_again(tmp_path) -> None:
    """An empty file signed nothing yet."""
    (tmp_path / "key").touch(0o600)
    assert SigningKey.read_or_generate(tmp_path / "key").public_key == SigningKey.read_file(tmp_path / "key").public_key
    assert (tmp_path / "key").stat().st_size == 32


@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_a_damaged_key_is_named(tmp_path, content) -> None:
    """A key of another length is our store's fault, with both numbers, and is not replaced."""
    (tmp_path / "key").write_bytes(content)
    for wish in (SigningKey.read_file, SigningKey.read_or_generate):
        with pytest.raises(StoreFault, match=f"is damaged: {len(content)} bytes, expected 32; put it back from a copy"):
            wish(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == content


def test_a_key_that_cannot_be_kept_is_named(tmp_path) -> None:
    """Where there is no folder there is no key, and the message says where."""
    with pytest.raises(StoreFault, match="cannot be read or written"):
        SigningKey.read_or_generate(tmp_path / "nowhere" / "key")


def test_a_lost_key_is_named(tmp_path) -> None:
    """Reading draws nothing: whoever lost the key is told so, and can put it back."""
    with pytest.raises(StoreFault, match="key is missing: put it back from a copy"):
        SigningKey.read_file(tmp_path / "key")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreFault, match="folder cannot be read: Is a directory"):
        SigningKey.read_file(tmp_path / "folder")
    assert not (tmp_path / "key").exists()
