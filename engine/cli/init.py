"""`contextful init`."""

from pathlib import Path
from typing import Annotated

from engine.cli import output
from engine.cli.options import Json, ManifestPath
from engine.cli.parsing import Misuse, Option

Example = Annotated[
    bool, Option("--example", envvar="CONTEXTFUL_INIT_EXAMPLE", help="Write one that runs on its own data.")
]


def init(*, example: Example = False, manifest: ManifestPath = None, json: Json = False) -> None:
    """Write a commented contextful.toml here, or where --manifest says; no file is overwritten."""
    from engine.pipeline.manifest.reading import NAME
    from engine.pipeline.manifest.starter import write_starter

    folder = Path() if manifest is None else manifest.parent
    if manifest is not None and manifest.name != NAME:
        raise Misuse(f"--manifest names {manifest.name}, and init writes {NAME}")
    written = [str(file) for file in write_starter(folder, example=example)]
    if json:
        output.document({"written": written})
        return
    for file in written:
        output.text(f"wrote {file}")
    if example:
        output.text('next: contextful pipeline run orders, then contextful read "SELECT * FROM orders"')
    else:
        output.text("next: edit it, then contextful pipeline validate")
