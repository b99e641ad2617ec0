"""What a deployment attaches: exactly the modules meant, and imports that start fast."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.local_edge import ROOT

WORKER = ROOT / "worker"
SMALL = 400 * 1024
"""Bytes of all modules together; the platform takes more than a hundred times that."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that wrangler would deploy."""
    out = tmp_path_factory.mktemp("bundle")
    options = ["deploy", "--dry-run", "--outdir", str(out), "--containers-rollout=none"]
    made = subprocess.run(
        [ROOT / "scripts" / "wrangler", *options], capture_output=True, text=True, timeout=180, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return out


@pytest.fixture(scope="module")
def modules(bundle: Path) -> set[str]:
    """The names of its files, less the note that wrangler writes beside them."""
    return {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()} - {"README.md"}


def test_the_bundle_holds_exactly_the_modules_meant(modules):
    own = {f"worker/{path.name}" for path in WORKER.glob("*.py")} - {"worker/entry.py"}

    vendored = {name for name in modules if name.startswith("python_modules/")}
    assert modules - vendored == own | {"entry.py"}
    assert {name.split("/")[1] for name in vendored} == {
        "workers", "asgi.py", "workers_runtime_sdk-1.9.5.dist-info", "_cloudflare_compat_flags.pyi",
        "_pyodide_entrypoint_helper.pyi", "_workers_sdk_entropy_import_context.py", "_workers_sdk_package_patches.py",
        "_workers_sdk_patch_loader.pth", "_workers_sdk_patch_loader.py",
    }  # fmt: skip
    assert {"python_modules/workers/__init__.py", "python_modules/workers/workflows.js"} <= vendored


def test_the_bundle_holds_no_test_and_nothing_installed(modules):
    for name in modules:
        assert not {"tests", ".venv", "node_modules", "__pycache__", "engine.egg-info"} & set(Path(name).parts), name
        assert not name.endswith((".pyc", ".lock", ".toml")), name


def test_the_bundle_is_small(bundle, modules):
    size = sum((bundle / name).stat().st_size for name in modules)

    print(f"the Worker has {len(modules)} modules and {size:,} bytes")
    assert size < SMALL


def test_the_main_module_names_every_class_that_is_bound(bundle):
    [names] = [
        ast.literal_eval(node.value)
        for node in ast.parse((bundle / "entry.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    deployed = _deployed()

    bound = {each["class_name"] for each in [*deployed["durable_objects"]["bindings"], *deployed["containers"]]}
    assert set(names) == bound | {"Default", "Outbound"}


def test_what_is_deployed_has_no_flag_of_the_local_edge():
    assert _deployed()["compatibility_flags"] == ["python_workers"]


@pytest.mark.parametrize("path", sorted(WORKER.glob("*.py")), ids=lambda path: path.name)
def test_the_worker_imports_the_standard_library_and_its_sdk_only(path: Path):
    allowed = sys.stdlib_module_names | {"worker", "workers", "js", "pyodide"}

    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }

    assert {name.split(".")[0] for name in imported} <= allowed


def test_what_the_worker_imports_of_the_standard_library_is_little():
    pure = "columns environment failures life requests scheduled values"
    imports = "; ".join(f"import worker.{name}" for name in pure.split())
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = {{*sys.modules}}; {imports}"
    told = f"{program}; print(*({{*sys.modules}} - before))"

    loaded = subprocess.check_output([sys.executable, "-I", "-S", "-c", told], text=True).split()

    print(f"the Worker's own modules load {len(loaded)} modules")
    assert len(loaded) < 80
    assert not {"asyncio", "ssl", "socket", "email", "http", "decimal", "sqlite3", "typing_extensions"} & set(loaded)


def _deployed() -> dict[str, Any]:
    return tomllib.loads((ROOT / "wrangler.toml").read_text(encoding="utf-8"))
