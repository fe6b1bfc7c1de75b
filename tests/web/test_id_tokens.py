"""ID tokens of a provider of OpenID Connect: which are believed. The library decides; this holds it to that."""

import base64
import hashlib
import hmac
import json
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
CLAIMS = {"iss": "provider", "aud": "cup", "sub": "7"}


def part(data: bytes) -> bytes:
    """Returns a part of a token."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(algorithm: str, sign, seconds: float = 60, **other: str) -> str:
    """Returns a token that is good for so long, signed in some way."""
    claims = {**CLAIMS, "exp": time.time() + seconds, **other}
    signed = b".".join(part(json.dumps(each).encode()) for each in ({"alg": algorithm, "kid": "k"}, claims))
    return (signed + b"." + part(sign(signed))).decode()


def rightly(signed: bytes) -> bytes:
    """Signs as the provider does."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    return KEY.sign(signed, PKCS1v15(), SHA256())


@pytest.fixture
def believe(contest, monkeypatch):
    """Reads a token as it is read when somebody comes back from the provider, whose key is `KEY`."""
    import jwt
    from allauth.socialaccount.internal import jwtkit

    monkeypatch.setattr(
        jwtkit, "fetch_key", lambda given, *_: (jwt.get_unverified_header(given)["alg"], KEY.public_key())
    )
    return lambda given: jwtkit.verify_and_decode(
        credential=given, keys_url="", issuer="provider", audience="cup", lookup_kid=None
    )


def test_a_good_token_is_believed(believe):
    """So that the others are refused for what is wrong with them."""
    assert believe(token("RS256", rightly))["sub"] == "7"


@pytest.mark.parametrize(
    "forged",
    [
        lambda: token("none", lambda _: b""),
        lambda: token("HS256", lambda signed: hmac.new(PUBLIC, signed, hashlib.sha256).digest()),
        lambda: token("RS256", lambda _: bytes(256)),
        lambda: token("RS256", rightly, seconds=-600),
        lambda: token("RS256", rightly, aud="another"),
        lambda: token("RS256", rightly, iss="another"),
    ],
    ids=["unsigned", "public-key-as-secret", "wrong-signature", "expired", "for-another", "of-another"],
)
def test_a_forged_token_is_not_believed(believe, forged):
    """Nobody signs in as somebody else by writing what a provider says."""
    with pytest.raises(Exception, match=r"Invalid id_token|Expected a string or bytes value"):
        believe(forged())
