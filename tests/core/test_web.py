"""Host, origin, token and size: what both servers refuse, and only that."""

import pytest

from resetfree.core.web import HOST, ORIGIN, TOKEN, body_size, has_token, origin_refusal

OURS = ["127.0.0.1:8000"]
CASES: list[tuple[dict[str, str], list[str], str | None]] = [
    ({}, OURS, None),
    ({}, ["localhost"], None),
    ({}, ["[::1]:8000"], None),
    ({"origin": "http://127.0.0.1:8000"}, OURS, None),
    ({"sec-fetch-site": "same-origin"}, OURS, None),
    ({}, [], HOST),
    ({}, [*OURS, *OURS], HOST),
    ({}, [""], HOST),
    ({}, ["[::1"], HOST),
    ({}, ["127.0.0.1.evil.example"], HOST),
    ({}, ["evil.example"], HOST),
    ({"origin": "http://evil.example"}, OURS, ORIGIN),
    ({"origin": "https://127.0.0.1:8000"}, OURS, ORIGIN),
    ({"origin": "http://127.0.0.1:8001"}, OURS, ORIGIN),
    ({"origin": "null"}, OURS, ORIGIN),
    ({"sec-fetch-site": "cross-site"}, OURS, ORIGIN),
    ({"sec-fetch-site": "same-site"}, OURS, ORIGIN),
]


@pytest.mark.parametrize(("headers", "hosts", "refusal"), CASES)
def test_who_may_ask(headers: dict[str, str], hosts: list[str], refusal: str | None) -> None:
    assert origin_refusal(headers, hosts) == refusal
    named = ["evil.example"]
    assert origin_refusal({}, named, any_name=True) is None
    assert origin_refusal({"origin": "http://other.example"}, named, any_name=True) == ORIGIN


def test_the_token_is_asked_for_where_there_is_one() -> None:
    assert has_token({}, "")
    assert has_token({TOKEN: "secret"}, "secret")
    for given in ({}, {TOKEN: ""}, {TOKEN: "secreT"}, {TOKEN: "secret "}, {TOKEN: "\udcff"}):
        assert not has_token(given, "secret")


def test_a_length_is_digits_and_bounded() -> None:
    assert (body_size("0", 10), body_size("10", 10), body_size("11", 10)) == (0, 10, None)
    for none in ("", "-1", "1e3", " 5", "٣", "0x10"):
        with pytest.raises(ValueError, match="needs its Content-Length"):
            body_size(none, 10)
