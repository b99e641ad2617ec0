from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.secrets import ERROR_CAP, SecretGuard, capped, unmask

TOKEN = "s3cr3t-Value/9+x"
KNOWN = {"API_TOKEN": TOKEN, "QUOTED": 'pa"ss\\wörd\n!', "PART": "Value/9"}
# Spelled in two halves, so that no scanner takes these made-up keys for real ones.
KEYS = {
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "github": "ghp_" + "a1B2c3D4e5" * 4,
    "gitlab": "glpat-" + "a1B2c3D4e5" * 2,
    "slack": "xoxb-" + "123456789012-abcdefghij",
    "stripe": "sk_live_" + "a1B2c3D4e5" * 2,
    "sk": "sk-" + "ant-api03-a1B2c3D4e5f6",
    "google": "AIza" + "a1B2c3D4e5" * 3 + "abcde",
    "npm": "npm_" + "a1B2c3" * 6,
    "pypi": "pypi-AgE" + "a1B2c3D4e5" * 6,
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".abcDEF123_-abcDEF",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIB/abc+d\n" * 6 + "-----END RSA PRIVATE KEY-----",
}
MORE_KEYS = [
    "ASIA" + "IOSFODNN7EXAMPLE",
    *(f"gh{letter}_" + "a1B2c3D4e5" * 4 for letter in "osur"),
    "github_pat_" + "a1B2c3D4e5a1B2c3D4e5f6_" + "a1B2c3D4e5" * 6,
    *(f"xox{letter}-" + "1234567890-abc" for letter in "aprs"),
    "rk_live_" + "a1B2c3D4e5" * 2,
    "sk_test_" + "a1B2c3D4e5" * 2,
    "-----BEGIN PRIVATE KEY-----\\n" + "MIIB/abc+d" * 6,
]
LONG = "ordinary words " * 2_000
ORDINARY = [
    "task-1", "risk-averse", "ask-me-anything-about-the-weather-tomorrow", "disk-usage-of-the-last-30-days",
    "sk-learn", "the bearer of bad news", "Bearer internationalization-and-localization", "NOKIA", "AKIAH",
    "eyJ.a.b", "a_snake_case_name_that_goes_on", "ghp_short", "xoxo-kisses", "AIzabel", "xoxb-hugs-and-kisses",
    "0b5f7a3e-1c2d-4e5f-8a9b-0c1d2e3f4a5b", "2026-01-31T06:00:00.123456Z",
    "https://example.com/a-b_c?d=e-f#PRIVATE KEY",
    "-----BEGIN PUBLIC KEY-----", "${API_TOKEN}", "[masked:aws]",
]  # fmt: skip


def guard() -> SecretGuard:
    return SecretGuard(KNOWN)


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_a_key_of_a_known_shape_is_masked_wherever_it_stands(kind: str, key: str) -> None:
    assert guard().text(f"key={key}") == (f"key=[masked:{kind}]", 1)
    assert guard().text(f"{key} and {key}") == (f"[masked:{kind}] and [masked:{kind}]", 2)
    assert guard().text(json.dumps({"line": f"\n{key}"}))[1] == 1


@pytest.mark.parametrize("beside", ["a", LONG], ids=["on a small page", "on a large one"])
@pytest.mark.parametrize("key", [*KEYS.values(), *MORE_KEYS, *KNOWN.values()])
def test_every_variant_of_a_shape_is_masked_in_text_and_in_batches(key: str, beside: str) -> None:
    text, count = guard().text(key)
    batch, found = guard().batch(pa.RecordBatch.from_pydict({"x": [beside, key]}))

    assert (count, found) == (1, 1)
    assert text.startswith(("[masked:", "${"))
    assert batch.column("x").to_pylist() == [beside, text]


def test_a_bearer_token_is_masked_behind_its_word() -> None:
    assert guard().text("Authorization: Bearer abcdefghij0123456789==") == ("Authorization: Bearer [masked:bearer]", 1)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_pass(text: str) -> None:
    assert guard().text(text) == (text, 0)


def test_a_known_secret_becomes_its_name_in_each_of_its_spellings() -> None:
    embedded = json.dumps(KNOWN["QUOTED"])

    assert guard().text(f"t={TOKEN};") == ("t=${API_TOKEN};", 1)
    assert guard().text(f'{{"a": {embedded}}}') == ('{"a": "${QUOTED}"}', 1)
    for encoded in ("s3cr3t-Value%2F9%2Bx", "s3cr3t-Value%2f9%2bx", "s3cr3t-Value/9%2Bx"):
        assert guard().text(f"?t={encoded}&") == ("?t=${API_TOKEN:url}&", 1)


def test_a_secret_that_contains_another_is_masked_first() -> None:
    assert guard().text(f"{TOKEN} Value/9") == ("${API_TOKEN} ${PART}", 2)
    assert SecretGuard({"A": "secret", "B": "secret-longer"}).text("secret-longer secret") == ("${B} ${A}", 2)


def test_a_key_that_is_no_text_is_left_to_whoever_refuses_it() -> None:
    assert SecretGuard({"TOKEN": "planted-secret"}).value({1: "planted-secret"}) == ({1: "${TOKEN}"}, 1)


def test_a_key_that_only_a_mask_uncovers_is_masked_too() -> None:
    assert guard().text(TOKEN + KEYS["sk"]) == ("${API_TOKEN}[masked:sk]", 2)


@pytest.mark.parametrize("secret", ["masked", "${API_", ":google", "masked:aws]"])
def test_what_a_mask_wrote_is_never_taken_for_a_secret(secret: str) -> None:
    guard = SecretGuard({"API_TOKEN": TOKEN, "ODD": secret})

    masked = guard.text(f"{TOKEN} {KEYS['aws']} {KEYS['google']} {secret}")

    assert masked == ("${API_TOKEN} [masked:aws] [masked:google] ${ODD}", 4)
    assert guard.text(masked[0]) == (masked[0], 0)


def test_secrets_too_short_to_tell_from_data_are_left_alone() -> None:
    assert SecretGuard({"PIN": "12345"}).text("12345") == ("12345", 0)
    assert SecretGuard({"PIN": "123456"}).text("123456") == ("${PIN}", 1)


def test_values_are_walked_through_texts_and_keys_and_counted() -> None:
    value = {TOKEN: [1, None, True, f"x{TOKEN}"], "b": {"c": KEYS["aws"]}}

    assert guard().value(value) == ({"${API_TOKEN}": [1, None, True, "x${API_TOKEN}"], "b": {"c": "[masked:aws]"}}, 3)
    assert value["b"] == {"c": KEYS["aws"]}


def test_a_position_comes_back_whole_even_if_it_looks_like_a_credential() -> None:
    position = {
        "next": f"https://api.example.com/?token={TOKEN}",
        "cursor": KEYS["jwt"],
        "url": "a=s3cr3t-Value%2F9%2Bx",
    }

    stored, count = guard().position(position)

    assert count == 2
    assert "s3cr3t" not in json.dumps(stored)
    assert unmask(stored, secrets=KNOWN) == position
    assert unmask("a", secrets={}) == "a"


def test_unmasking_restores_the_given_secrets_only() -> None:
    assert unmask("${API_TOKEN} ${OTHER}", secrets={"API_TOKEN": "v"}) == "v ${OTHER}"


@pytest.mark.clause("run.journal.recorded-batch")
def test_a_batch_is_masked_in_its_text_columns_and_nowhere_else() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "n": [1, 2, 3],
            "clean": ["a", "b", None],
            "text": [None, f"<{TOKEN}>", "task-1"],
            "json": [json.dumps({"k": KEYS["github"], "q": KNOWN["QUOTED"]}), None, "{}"],
        }
    )

    masked, count = guard().batch(batch)

    assert count == 3
    assert masked.schema == batch.schema
    assert masked.to_pydict() == {
        "n": [1, 2, 3],
        "clean": ["a", "b", None],
        "text": [None, "<${API_TOKEN}>", "task-1"],
        "json": ['{"k": "[masked:github]", "q": "${QUOTED}"}', None, "{}"],
    }
    assert guard().batch(masked) == (masked, 0)


def test_a_clean_batch_comes_back_as_the_same_object() -> None:
    batch = pa.RecordBatch.from_pydict({"x": ORDINARY, "n": list(range(len(ORDINARY)))})
    empty: Any = pa.RecordBatch.from_pydict({"x": pa.array([], pa.string())})

    assert guard().batch(batch)[0] is batch
    assert guard().batch(empty)[0] is empty
    assert guard().batch(empty.select([]))[1] == 0


PIECES = st.sampled_from(
    [*KNOWN.values(), *KEYS.values(), *MORE_KEYS, "${", "}", "[masked:", "]", "Bearer ", "AKIA", "sk-", "\\n", "_", "a"]
)
TEXT = st.lists(PIECES | st.text(max_size=3), max_size=6).map("".join)
SECRETS = st.dictionaries(
    st.sampled_from(["A", "API_TOKEN", "Z"]),
    st.text(st.sampled_from("ab}${[]:msked\\\"/"), min_size=5, max_size=9) | st.text(min_size=6) | PIECES,
)  # fmt: skip


@given(TEXT, SECRETS)
def test_a_second_guard_finds_nothing(text: str, secrets: dict[str, str]) -> None:
    guard = SecretGuard(secrets)

    masked, _ = guard.text(text + "".join(secrets.values()))

    assert guard.text(masked) == (masked, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.clause("run.journal.step-output")
@given(JSON, SECRETS)
def test_json_text_is_cleared_only_where_no_part_of_its_value_is_masked(value: Any, secrets: dict[str, str]) -> None:
    guard = SecretGuard(secrets)
    text = msgspec.json.encode(value)

    assert not guard.clears(text) or guard.value(value) == (value, 0)


@pytest.mark.parametrize("key", [*KEYS.values(), *MORE_KEYS, *KNOWN.values(), "Bearer abcdefghij0123456789=="])
def test_json_text_with_a_credential_is_not_cleared(key: str) -> None:
    assert not guard().clears(msgspec.json.encode({"a": [f"<{key}>"]}))
    assert not guard().clears(msgspec.json.encode({key: 1}))


def test_ordinary_json_text_is_cleared() -> None:
    rows = [{"id": n, "name": f"the night's light {n}", "_links": {"self": f"https://x.test/{n}"}} for n in range(100)]

    assert guard().clears(msgspec.json.encode(rows))


def test_a_secret_that_is_no_text_is_masked_in_bytes_and_stops_nothing_else() -> None:
    guard = SecretGuard({"ODD": os.fsdecode(b"s3cr3t-\xff-value"), "API_TOKEN": TOKEN})
    batch = pa.RecordBatch.from_pydict({"x": ["a", TOKEN]})

    assert guard.bytes(b"<s3cr3t-\xff-value>") == (b"<${ODD}>", 1)
    assert guard.text("?t=s3cr3t-%FF-value&") == ("?t=${ODD:url}&", 1)
    assert guard.batch(batch)[0].to_pydict() == {"x": ["a", "${API_TOKEN}"]}
    assert guard.clears(b'["a"]')
    assert not guard.clears(msgspec.json.encode([TOKEN]))


@given(st.lists(st.none() | TEXT | st.just(LONG), max_size=4), SECRETS)
def test_a_batch_is_masked_as_its_texts_are(texts: list[str | None], secrets: dict[str, str]) -> None:
    guard = SecretGuard(secrets)
    cells = [None if text is None else guard.text(text) for text in texts]

    masked, count = guard.batch(pa.RecordBatch.from_pydict({"x": pa.array(texts, pa.string())}).slice(0))

    assert masked.column("x").to_pylist() == [cell and cell[0] for cell in cells]
    assert count == sum(cell[1] for cell in cells if cell)


@given(st.lists(TEXT, min_size=3, max_size=5))
def test_a_slice_of_a_batch_is_masked_as_the_rows_it_shows(texts: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({"x": texts}).slice(1, 1)

    assert guard().batch(batch)[0].to_pydict() == {"x": [guard().text(texts[1])[0]]}


@pytest.mark.clause("run.record.error-cap")
@pytest.mark.parametrize("character", ["e", "é", "🐎"])
def test_an_error_is_masked_and_cut_at_two_kibibytes_with_an_ellipsis(character: str) -> None:
    text = f"{KEYS['aws']} {character * 4000}"

    cut = capped(text)

    assert ERROR_CAP == 2048
    assert ERROR_CAP - 4 < len(cut.encode()) <= ERROR_CAP
    assert cut.startswith(f"[masked:aws] {character}")
    assert cut.endswith(f"{character}…")
    assert capped(cut) == cut


@pytest.mark.clause("run.record.error-cap")
def test_a_secret_across_the_cap_leaves_no_half_behind() -> None:
    cut = capped("e" * 2040 + TOKEN, guard=guard())

    assert "s3cr" not in cut
    assert capped("e" * 2048) == "e" * 2048
    assert capped("\ud800") == "?"


def test_importing_the_guard_imports_no_arrow() -> None:
    code = "import sys, engine.secrets; print('pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
