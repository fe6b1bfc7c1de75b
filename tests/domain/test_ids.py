"""Names that are computed from what they name."""

import hashlib
import hmac

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.ids import canonical_json, derive_seed, digest, job_id, parse_json
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Norm

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_canonical_json_has_one_form():
    """Keys are sorted at every depth, there are no spaces, and text is not escaped to ASCII."""
    assert canonical_json({"b": [1, {"d": None, "c": "é"}], "a": 0.5}) == '{"a":0.5,"b":[1,{"c":"é","d":null}]}'


def test_canonical_json_is_that_of_rfc_8785():
    """The example of section 3.2.3 of RFC 8785: numbers as ECMAScript writes them, keys by their UTF-16 units."""
    value = parse_json(
        r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
             "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"""
    )
    numbers = "333333333.3333333,1e+30,4.5,0.002,1e-27"
    text = r"""€$\u000f\nA'B\"\\\\\"/"""
    assert canonical_json(value) == f'{{"literals":[null,true,false],"numbers":[{numbers}],"string":"{text}"}}'
    assert canonical_json({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'
    assert canonical_json([1.0, -0.0, 1e20, 1e21]) == "[1,0,100000000000000000000,1e+21]"


NUMBERS = st.one_of(
    st.floats(), st.floats(0, 1e-3), st.integers(-(2**54), 2**54).map(float), st.decimals(0, 999, places=3).map(float)
)
"""Doubles of every size, and those on both sides of where Python and ECMAScript write them differently."""
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | NUMBERS | ANY_TEXT | st.sampled_from([Side.ATTACK, Norm.LINF]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(ANY_TEXT, inner, max_size=4)
        ),
        max_leaves=8,
    )
)
def test_canonical_json_is_that_of_another_writer(value):
    """The package `rfc8785` writes the same text of every value, or refuses it too."""
    try:
        expected = rfc8785.dumps(value).decode()
    except ValueError:
        with pytest.raises(ValueError):
            canonical_json(value)
        return
    assert canonical_json(value) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 2**53, -(2**53), 10**400, "\ud800"])
def test_canonical_json_refuses_what_readers_disagree_on(value):
    """NaN, infinities, integers that a double does not hold and half a surrogate pair are errors, never changed."""
    for inside in (value, [value], {"x": value}):
        with pytest.raises(ValueError):
            canonical_json(inside)


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, {"a": 1, 2: 3}, {"x": b"y"}, {"x": {1, 2}}, object()])
def test_canonical_json_converts_nothing(value):
    """Keys that are no text, and values that JSON does not have, are errors."""
    with pytest.raises(ValueError):
        canonical_json(value)


@pytest.mark.slow
@given(VALUES | st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_written_is_read_unchanged(value):
    """A value comes back as the same value with the same canonical text, also where a double looks like an integer."""
    text = canonical_json(value)
    assert parse_json(text) == value
    assert canonical_json(parse_json(text)) == text


@pytest.mark.parametrize("text", ["9007199254740993", "-9007199254740993", "1" * 5000, "1.0", "1e2", "01"])
def test_another_way_to_write_a_number_is_not_canonical(text):
    """An integer that no double holds, or that has another form, is not the canonical text of what is read."""
    try:
        found = canonical_json(parse_json(text))
    except ValueError:
        return
    assert found != text


def test_a_digest_is_sha256():
    """The digest of "abc" is the one that FIPS 180 prints."""
    assert digest("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest(b"abc") == digest("abc")


@pytest.mark.slow
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
