"""Answers of the private binding: JSON, never cached."""

from __future__ import annotations

import json
from typing import Any

from workers import Response


def answer(body: Any, *, status: int = 200) -> Response:
    """Return `body` as JSON. Integers keep all their digits; nothing in it is NaN."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, status=status, headers={"content-type": "application/json", "cache-control": "no-store"})


def problem(error: str, text: str, *, status: int, **facts: Any) -> Response:
    """Return an error of the kind `error`, with a sentence and facts."""
    return answer({"error": error, "text": text, **facts}, status=status)
