"""Runs the wrangler of package-lock.json in place of this process."""

from __future__ import annotations

import os
import sys

from edge_tools import PACKAGES, tools

if __name__ == "__main__":
    programs = tools()
    wrangler = PACKAGES / "wrangler" / "bin" / "wrangler.js"
    os.execve(programs.node, [str(programs.node), str(wrangler), *sys.argv[1:]], programs.environment)
