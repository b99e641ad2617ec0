"""What a deployment attaches: exactly the modules meant, and imports that start fast."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from edge_stage import stage

from engine.sql import statement
from tests.local_edge import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = ROOT / "worker"
RUN = (
    *("read_meta", "list_guards", "find_guard", "find_reconciled", "require_reconcilable", "audit_guard"),
    *("settle_entry", "clear_entry", "free_entry", "end_guarded_lease", "release_guard", "require_suppliable"),
    *("count_operator_refusals", "forget_operator_refusals"),
)
"""The statements that the Worker runs for operators."""

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


def test_the_bundle_holds_exactly_the_modules_that_the_worker_imports(modules):
    own = imported(ROOT / "worker" / "entry.py") - {"worker/entry.py"}

    vendored = {name for name in modules if name.startswith("python_modules/")}
    assert modules - vendored == own | {"entry.py"}
    assert {f"worker/{path.name}" for path in WORKER.glob("*.py")} - {"worker/entry.py"} <= own
    assert {name.split("/")[0] for name in own} == {"worker", "d1", "engine"}
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


@pytest.mark.parametrize("name", sorted(path.name for path in WORKER.glob("*.py")))
def test_the_worker_imports_the_standard_library_its_sdk_and_what_it_shares_with_the_engine(name: str):
    allowed = sys.stdlib_module_names | {"worker", "workers", "js", "pyodide", "d1", "engine"}

    assert {each.split(".")[0] for each in imports(WORKER / name)} <= allowed


def test_what_the_worker_shares_with_the_engine_imports_the_standard_library_alone():
    shared = {name for name in imported(ROOT / "worker" / "entry.py") if not name.startswith("worker/")}

    found = {each.split(".")[0] for name in shared for each in imports(ROOT / name)}

    assert len(shared) > 20
    assert found <= sys.stdlib_module_names | {"d1", "engine"}


def test_the_statements_of_the_deployment_are_the_engines_own(bundle):
    program = (
        "import json, sys; from engine.sql import statement; "
        "print(json.dumps({name: statement(name).text for name in sys.argv[1:]}))"
    )

    told = subprocess.check_output([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(bundle)!r}]; "
                                    + program, *RUN], text=True)  # fmt: skip

    assert json.loads(told) == {name: statement(name).text for name in RUN}


def test_what_the_worker_imports_of_the_standard_library_is_little(tmp_path: Path):
    staged = stage(tmp_path / "worker")
    pure = "columns environment failures life operator_keys requests scheduled values"
    guards = "answers desk refusals requests statements"
    own = [*(f"worker.{name}" for name in pure.split()), *(f"d1.guards.{name}" for name in guards.split())]
    asked = "; ".join(f"import {name}" for name in [*own, "engine.operator.claims"])
    program = f"import sys; sys.path.insert(0, {str(staged)!r}); before = {{*sys.modules}}; {asked}"
    told = f"{program}; print(*({{*sys.modules}} - before))"

    loaded = subprocess.check_output([sys.executable, "-I", "-S", "-c", told], text=True).split()

    others = {name for name in loaded if name.split(".")[0] not in {"worker", "d1", "engine"}}
    print(f"the Worker's own modules load {len(others)} of the standard library's")
    assert len(others) < 80
    # Neither may chance be drawn while modules are imported, nor is there anything to read files from.
    assert not {"random", "secrets", "importlib.resources", "tempfile"} & others
    assert not {"asyncio", "ssl", "socket", "email", "http", "decimal", "sqlite3", "typing_extensions"} & others


def imported(entry: Path) -> set[str]:
    """Every module of the repository that `entry` imports, and what those import: packages on the way included."""
    seen: set[Path] = set()
    todo = [entry]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in imports(path):
            parts = name.split(".") if name.split(".")[0] in {"worker", "d1", "engine"} else []
            heads = [ROOT.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
            files = [file for head in heads for file in (head.with_suffix(".py"), head / "__init__.py")]
            todo += [file for file in files if file.exists()]
    return {path.relative_to(ROOT).as_posix() for path in seen}


def imports(path: Path) -> set[str]:
    """What the module at `path` imports as it is imported itself: modules, and names that may be modules."""
    found: set[str] = set()
    for node in _run(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


def _run(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run where the module is imported: neither functions' nor those for type checkers alone."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _run(node.orelse)
        elif isinstance(node, ast.If | ast.Try):
            yield from _run(node.body)
        else:
            yield node


def _deployed() -> dict[str, Any]:
    return tomllib.loads((ROOT / "wrangler.toml").read_text(encoding="utf-8"))
