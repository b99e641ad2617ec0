"""Makes the runtime's Python bundle out of the npm package `pyodide`, so that the edge starts without a network.

The runtime wants one Cap'n Proto message with three internal modules. Two are the package's files as they are; the
third is its loader, which must reach WebAssembly and randomness through the runtime's own wrappers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "pyodide_dev.capnp.bin"

_SCHEMA: Final = """@0xd8a1c0f3b2e64f57;
struct Bundle { modules @0 :List(Module); }
struct Module {
  name @0 :Text;
  union { src @1 :Data; wasm @4 :Data; data @5 :Data; json @6 :Text; }
  type @2 :Kind;
  tsDeclaration @3 :Text;
  compileCache @7 :Data;
}
enum Kind { bundle @0; builtin @1; internal @2; }
"""

_WRAPPERS: Final = (
    'import { newWasmModule, wasmInstantiate, getRandomValues } from "pyodide-internal:builtin_wrappers";\n'
)

_PATCHES: Final = (
    (r"\bnew WebAssembly\.Module\(", "newWasmModule("),
    (r"\bWebAssembly\.instantiate\(", "wasmInstantiate("),
    (r"\bcrypto\.getRandomValues\(", "getRandomValues(Module,"),
    (r"export default _createPyodideModule;", "export default _createPyodideModule;export{_createPyodideModule};"),
)


def bundle(package: Path, *, into: Path) -> Path:
    """Return the folder under `into` that holds the bundle of the npm package at `package`, made once a version."""
    version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    folder = into / f"pyodide-{version}"
    if not (folder / NAME).exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{NAME}.making"
        made.write_bytes(_message(package, work=folder))
        made.replace(folder / NAME)
    return folder


def patched(loader: str) -> str:
    """Return the text of `pyodide.asm.mjs` as the runtime needs it. Raise `SystemExit` when it is spelled otherwise."""
    for pattern, replacement in _PATCHES:
        loader, count = re.subn(pattern, replacement, loader)
        if not count:
            msg = f"pyodide.asm.mjs has no {pattern!r}: this version of the npm package pyodide needs another patch"
            raise SystemExit(msg)
    return _WRAPPERS + loader


def _message(package: Path, *, work: Path) -> bytes:
    import capnp

    schema = work / "bundle.capnp"
    schema.write_text(_SCHEMA, encoding="utf-8")
    capnp.remove_import_hook()
    message = capnp.load(str(schema)).Bundle.new_message()
    loader = patched((package / "pyodide.asm.mjs").read_text(encoding="utf-8"))
    contents = (
        ("pyodide.asm", "src", loader.encode()),
        ("pyodide.asm.wasm", "wasm", (package / "pyodide.asm.wasm").read_bytes()),
        ("python_stdlib.zip", "data", (package / "python_stdlib.zip").read_bytes()),
    )
    modules = message.init("modules", len(contents))
    for module, (name, kind, content) in zip(modules, contents, strict=True):
        module.name = f"pyodideRuntime-internal:{name}"
        module.type = "internal"
        setattr(module, kind, content)
    written: bytes = message.to_bytes()
    return written
