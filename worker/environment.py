"""The environment an engine's container starts with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HOST: Final = "store.internal"
"""The name under which the private binding is reached from a container, over plain HTTP within the platform."""

NAMES: Final = "ENGINE_ENVIRONMENT"
"""The Worker's variable that names, parted by spaces, the variables and secrets an engine gets."""


def environment(variable: Callable[[str], object], *, name: str) -> dict[str, str]:
    """Return the environment of the engine `name`: what `ENGINE_ENVIRONMENT` names, and what places it here.

    An engine gets no secret that nobody named, above all not the operator's. Raise `LookupError` naming those that
    the Worker does not have.
    """
    names = str(variable(NAMES) or "").split()
    given = {each: variable(each) for each in names}
    if missing := [each for each, value in given.items() if not isinstance(value, str)]:
        msg = f"{NAMES} names {', '.join(missing)}, and the Worker has no such variable: wrangler secret put it"
        raise LookupError(msg)
    return {
        **{each: str(value) for each, value in given.items()},
        "CONTEXTFUL_STORAGE_PROFILE": "cloudflare-d1",
        "CONTEXTFUL_BINDING_URL": f"http://{HOST}",
        "CONTEXTFUL_SITE_ID": name,
    }
