"""Every way to get a manifest wrong is told with its key path, what was found and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ManifestInvalid, RunRetryTagUnretryable
from engine.pipeline.manifest import load
from tests.unit.manifest.mistakes import BAD, IN_SOURCE, IN_TABLE, export, source, table

if TYPE_CHECKING:
    from pathlib import Path


def refusal(tmp_path: Path, text: str) -> ManifestInvalid:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestInvalid) as refused:
        load(path, {})
    return refused.value


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_told_with_file_key_path_found_and_allowed(tmp_path, case):
    text, place, found, allowed = BAD[case]

    error = refusal(tmp_path, text)

    told = [problem for problem in error.problems if f"{place}: found " in problem]
    assert len(told) == 1, error.problems
    said, permitted = told[0].split(": found ", 1)[1].split("; allowed: ", 1)
    assert found in said
    assert allowed in permitted
    assert str(tmp_path / "contextful.toml") in str(error)
    assert error.exit_code == 2


@pytest.mark.parametrize("case", BAD)
def test_one_mistake_is_told_once(tmp_path, case):
    error = refusal(tmp_path, BAD[case][0])

    assert len(error.problems) == 1


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path):
    text = table('incremental = "u"\nwrite_mode = "replace"\nprimary_key = "id"') + '[[destination]]\nname = "a"\n'
    text = text.replace('name = "shop"', 'name = "sh op"').replace("https://api", "ftp://api")

    error = refusal(tmp_path, text)

    places = [problem.split(": found ")[0] for problem in error.problems]
    assert sorted(places) == sorted([
        "project.name", 'destination[0] "a".kind', 'destination[0] "a".url', IN_TABLE + "primary_key",
        IN_TABLE + "incremental", IN_SOURCE + "url",
    ])  # fmt: skip


@pytest.mark.parametrize("by", ['"next-url"', '"token", param = "t"'])
def test_a_field_that_paging_needs_is_not_advised_to_be_left_out(tmp_path, by):
    (problem,) = refusal(tmp_path, source(f"paginate = {{ by = {by} }}")).problems

    assert problem.endswith('allowed: keys joined by dots, such as "data.items", none of them empty')
    assert refusal(tmp_path, source('records = ""')).problems[0].endswith("(leave it out for none)")


@pytest.mark.clause("run.retry.unretryable-tag")
def test_a_tag_that_no_schedule_retries_is_refused_in_an_export(tmp_path):
    path = tmp_path / "contextful.toml"
    path.write_text(export('table = "issues"\nretry = { retry_on = ["Permanent"] }'), encoding="utf-8")

    with pytest.raises(RunRetryTagUnretryable, match=r"retry\.retry_on\[0\]") as refused:
        load(path, {})

    assert refused.value.found == "Permanent"


@pytest.mark.clause("run.retry.unretryable-tag")
@pytest.mark.parametrize("tag", ["Permanent", "Storage", "transient"])
def test_a_tag_that_no_schedule_retries_is_refused_at_load(tmp_path, tag):
    path = tmp_path / "contextful.toml"
    path.write_text(source(f'retry = {{ retry_on = ["Transient", "{tag}"] }}'), encoding="utf-8")

    with pytest.raises(RunRetryTagUnretryable) as refused:
        load(path, {})

    assert refused.value.found == tag
    assert IN_SOURCE + "retry.retry_on[1]" in str(refused.value)


def test_an_unretryable_tag_among_other_mistakes_is_told_with_them(tmp_path):
    error = refusal(tmp_path, table('retry = { retry_on = ["Permanent"] }\nprimary_key = 1'))

    assert len(error.problems) == 2
    assert "no schedule retries" in error.problems[1]
