"""Names that are computed from what they name."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.ids import canonical_json, derive_seed, digest, job_id

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_canonical_json_has_one_form():
    """Keys are sorted at every depth, there are no spaces, and text is not escaped to ASCII."""
    assert canonical_json({"b": [1, {"d": None, "c": "é"}], "a": 0.5}) == '{"a":0.5,"b":[1,{"c":"é","d":null}]}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_refuses_what_json_has_no_word_for(number):
    """NaN and infinities are errors: no two readers agree on them."""
    with pytest.raises(ValueError):
        canonical_json({"x": number})


def test_a_digest_is_sha256():
    """The digest of "abc" is the one that FIPS 180 prints."""
    assert digest("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"abc") == digest("abc")


@given(st.dictionaries(st.sampled_from("abcdef"), VALUES, min_size=1))
def test_a_job_id_is_sixteen_hex_digits_of_what_goes_in(goes_in):
    """The order of the values does not matter; their canonical text alone does."""
    backwards = dict(reversed(goes_in.items()))
    expected = hashlib.sha256(canonical_json(goes_in).encode()).hexdigest()[:16]
    assert job_id(**goes_in) == job_id(**backwards) == expected


def test_another_value_is_another_job():
    """Changing any one value changes the id, and so does moving it to another name."""
    ids = {job_id(image="a", seed=1), job_id(image="a", seed=2), job_id(image="b", seed=1), job_id(seed="a", image=1)}
    assert len(ids) == 4


@given(st.binary(min_size=1, max_size=32), st.lists(st.text(max_size=5), max_size=3))
def test_a_seed_fits_a_json_integer(key, parts):
    """Seeds are 53 bits of an HMAC-SHA256, so that JSON carries them exactly."""
    whole = int.from_bytes(hmac.new(key, canonical_json(parts).encode(), hashlib.sha256).digest(), "big")
    assert derive_seed(key, *parts) == whole >> (256 - 53)
    assert derive_seed(key, *parts) < 2**53


def test_seeds_keep_their_parts_apart():
    """Where one part ends and the next begins changes the seed, and so does the key."""
    seeds = {
        derive_seed(b"k", "ab", "c"),
        derive_seed(b"k", "a", "bc"),
        derive_seed(b"k", "abc"),
        derive_seed(b"j", "abc"),
    }
    assert len(seeds) == 4
