"""The site id comes from one declaration, and a run's own option replaces the manifest's."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SiteIdUnresolved
from engine.pipeline.declaration import Manifest
from engine.site import site_id


def manifest(value: str | None = None, variable: str | None = None) -> Manifest:
    return Manifest(
        path=Path("contextful.toml"), project="p", root=Path(), site_id=value, site_id_env=variable, pipelines=()
    )


@pytest.mark.clause("run.record.site-id-unresolved")
@pytest.mark.parametrize(
    ("declared", "option", "option_env", "expected"),
    [
        (manifest("laptop"), None, None, "laptop"),
        (manifest(variable="SITE"), None, None, "from-site"),
        (manifest("laptop"), "desk", None, "desk"),
        (manifest("laptop"), None, "OTHER", "from-other"),
        (manifest(variable="SITE"), "desk", None, "desk"),
        (manifest("laptop", "SITE"), "desk", None, "desk"),
        (manifest(), "desk", None, "desk"),
    ],
)
def test_the_site_id_is_the_options_or_else_the_manifests(declared, option, option_env, expected):
    environ = {"SITE": "from-site", "OTHER": "from-other"}

    assert site_id(declared, environ, option=option, option_env=option_env) == expected


@pytest.mark.clause("run.record.site-id-unresolved")
@pytest.mark.parametrize(
    ("declared", "option", "option_env", "reason"),
    [
        (manifest(), None, None, "nothing declares it"),
        (manifest("laptop", "SITE"), None, None, "project.site_id and project.site_id_env are both given"),
        (manifest("laptop"), "desk", "SITE", "--site-id and --site-id-env are both given"),
        (manifest(variable="UNSET"), None, None, "project.site_id_env names the variable UNSET, which is not set"),
        (manifest(variable="EMPTY"), None, None, "project.site_id_env names the variable EMPTY, which is not set"),
        (manifest("laptop"), None, "UNSET", "--site-id-env names the variable UNSET, which is not set"),
    ],
)
def test_an_unresolved_site_id_says_why(declared, option, option_env, reason):
    with pytest.raises(SiteIdUnresolved) as refused:
        site_id(declared, {"SITE": "s", "EMPTY": ""}, option=option, option_env=option_env)

    assert reason in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.clause("run.record.site-id-length")
@pytest.mark.parametrize("good", ["a", "9", "a.b_c-D", "a" * 64])
def test_a_site_id_is_1_to_64_letters_digits_dots_underscores_and_hyphens(good):
    assert site_id(manifest(good), {}, option=None, option_env=None) == good


@pytest.mark.clause("run.record.site-id-length")
@pytest.mark.parametrize("bad", ["", "a" * 65, "a b", "a/b", "..", "-a", "é", "a\n"])
@pytest.mark.parametrize("place", ["manifest", "option", "variable"])
def test_no_other_text_is_a_site_id_wherever_it_stands(bad, place):
    declared = manifest(bad) if place == "manifest" else manifest(variable="SITE")
    option = bad if place == "option" else None

    with pytest.raises(SiteIdUnresolved):
        site_id(declared, {"SITE": bad}, option=option, option_env=None)
