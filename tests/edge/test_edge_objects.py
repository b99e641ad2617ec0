"""Objects come back byte for byte, under the conditions they were asked with."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

ABSENT = "0" * 64


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 65_537, 3_000_000, 12_000_000])
def test_a_blob_comes_back_byte_for_byte(binding, size: int):
    content = os.urandom(size)
    name = f"/v1/objects/blobs/{hashlib.sha256(content).hexdigest()}"

    written = binding.http.put(name, content=content)

    assert written.status_code == 200
    assert written.json()["size"] == size
    read = binding.http.get(name)
    assert read.content == content
    assert read.headers["etag"] == written.headers["etag"]


def test_a_blob_of_another_digest_is_refused_and_not_kept(binding):
    answer = binding.http.put(f"/v1/objects/blobs/{ABSENT}", content=b"not that")

    assert answer.status_code == 422
    assert answer.json()["error"] == "digest"
    assert binding.http.get(f"/v1/objects/blobs/{ABSENT}").status_code == 404


def test_what_is_called_a_blob_and_is_none_is_refused(binding):
    assert binding.http.put("/v1/objects/blobs/readme", content=b"x").status_code == 400


def test_an_object_is_created_once(binding):
    name = "/v1/objects/corpus/once"

    first = binding.http.put(name, content=b"first", headers={"If-None-Match": "*"})
    second = binding.http.put(name, content=b"second", headers={"If-None-Match": "*"})

    assert (first.status_code, second.status_code) == (200, 412)
    assert binding.http.get(name).content == b"first"


def test_of_many_that_create_one_object_at_once_one_does(binding):
    def create(n: int) -> int:
        headers = {"If-None-Match": "*"}
        answer = binding.http.put("/v1/objects/corpus/raced", content=str(n).encode(), headers=headers)
        return int(answer.status_code)

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(create, range(8)))

    assert sorted(statuses) == [200] + [412] * 7
    assert binding.http.get("/v1/objects/corpus/raced").content == str(statuses.index(200)).encode()


def test_an_object_is_replaced_only_as_it_was_known(binding):
    name = "/v1/objects/corpus/known"
    first = binding.http.put(name, content=b"first").headers["etag"]

    second = binding.http.put(name, content=b"second", headers={"If-Match": first})
    third = binding.http.put(name, content=b"third", headers={"If-Match": first})

    assert (second.status_code, third.status_code) == (200, 412)
    assert binding.http.get(name).content == b"second"


def test_a_head_tells_the_size_and_a_missing_object_is_missing(binding):
    binding.http.put("/v1/objects/corpus/sized", content=b"12345")

    known = binding.http.head("/v1/objects/corpus/sized")

    assert (known.status_code, known.headers["object-size"]) == (200, "5")
    assert binding.http.head("/v1/objects/corpus/none").status_code == 404
    assert binding.http.get("/v1/objects/corpus/none").json()["error"] == "missing"


def test_a_delete_is_harmless_to_repeat(binding):
    binding.http.put("/v1/objects/corpus/gone", content=b"x")

    statuses = [binding.http.delete("/v1/objects/corpus/gone").status_code for _ in range(2)]

    assert statuses == [204, 204]
    assert binding.http.get("/v1/objects/corpus/gone").status_code == 404


def test_a_delete_under_a_condition_is_refused(binding):
    assert binding.http.delete("/v1/objects/corpus/x", headers={"If-Match": '"a"'}).status_code == 400


def test_names_with_spaces_percents_and_umlauts_are_kept(binding):
    for name in ("a%20b", "50%2525", "%C3%BC", "a%2Fb%3Fc%23d"):
        binding.http.put(f"/v1/objects/corpus/names/{name}", content=name.encode())

    found = binding.http.get("/v1/objects", params={"prefix": "corpus/names/"}).json()["objects"]

    assert [each["key"].removeprefix("corpus/names/") for each in found] == ["50%25", "a b", "a/b?c#d", "ü"]


def test_a_listing_goes_on_where_its_page_ended(binding):
    for n in range(5):
        binding.http.put(f"/v1/objects/corpus/paged/{n}", content=b"x")

    keys: list[str] = []
    query: dict[str, str] | None = {"prefix": "corpus/paged/", "limit": "2"}
    while query:
        page = binding.http.get("/v1/objects", params=query).json()
        keys += [each["key"] for each in page["objects"]]
        query = {**query, "cursor": page["cursor"]} if page["cursor"] else None

    assert keys == [f"corpus/paged/{n}" for n in range(5)]


def test_an_unknown_method_is_refused(binding):
    assert binding.http.post("/v1/objects/corpus/x", content=b"x").status_code == 405
