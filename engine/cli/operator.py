"""`contextful operator …`: the key pair that a laptop keeps, and the tokens that it signs."""

import os
from pathlib import Path
from typing import Annotated, Final

from engine.cli import output
from engine.cli.guards import ProjectName
from engine.cli.options import Json, ManifestPath, duration_ms
from engine.cli.parsing import Misuse, Option

LONGEST: Final = 31 * 86_400_000


def _lifetime(text: str) -> int:
    milliseconds = duration_ms(text)
    if not 1_000 <= milliseconds <= LONGEST:
        raise Misuse(f"{text!r} is not between 1s and 31d")
    return milliseconds


KeyFile = Annotated[
    Path | None,
    Option("--key", envvar="CONTEXTFUL_OPERATOR_KEY", metavar="FILE",
           help="The private key; without it operator.pem among your settings of contextful."),
]  # fmt: skip
Subject = Annotated[
    str | None,
    Option("--operator", envvar="CONTEXTFUL_OPERATOR", metavar="WHO",
           help="Whom the token names on the record; without it you at this machine."),
]  # fmt: skip
Lifetime = Annotated[
    int,
    Option("--ttl", envvar="CONTEXTFUL_OPERATOR_TTL", metavar="DURATION", parser=_lifetime,
           help="How long it is good, at most 31d; 12h without it."),
]  # fmt: skip


def key(*, project: ProjectName = None, key: KeyFile = None, manifest: ManifestPath = None, json: Json = False) -> None:
    """Make the key pair that signs this laptop's tokens, or show the public key of the one there is."""
    from engine.operator.tokens import OperatorKey

    _project(project, manifest)
    file = _file(key)
    there = file.exists()
    public = (OperatorKey.kept(file) if there else OperatorKey.drawn(file)).public
    output.say(f"{'the private key is' if there else 'a new private key is kept'} in {file}")
    output.say("let the Worker know it: put this line into OPERATOR_KEYS, among [vars] of wrangler.toml or with")
    output.say("wrangler secret put OPERATOR_KEYS, beside those of others and parted by a space; then deploy")
    if json:
        output.document({"public_key": public, "file": str(file)})
    else:
        output.text(public)


def token(
    *,
    project: ProjectName = None,
    operator: Subject = None,
    ttl: Lifetime = 43_200_000,
    key: KeyFile = None,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Make a token that proves to the project's Worker who asks about its guards."""
    from engine.clock import Chance, SystemClock, instant
    from engine.operator.tokens import OperatorKey

    name = _project(project, manifest)
    kept = OperatorKey.kept(_file(key))
    now_s = SystemClock().now() // 1000
    subject = operator or _me()
    made = kept.token(project=name, operator=subject, ttl_s=ttl // 1000, now_s=now_s, chance=Chance())
    until = instant(now_s * 1000 + ttl)
    output.say(f"good for project {name} until {until}, as {subject}; export it as CONTEXTFUL_OPERATOR_CREDENTIAL")
    output.say(f"the Worker takes it once its OPERATOR_KEYS lists {kept.public}")
    if json:
        output.document({"token": made, "project": name, "operator": subject, "expires_at": until, "key": kept.id})
    else:
        output.text(made)


def _project(named: str | None, manifest: Path | None) -> str:
    if named:
        return named
    from engine.cli import session
    from engine.errors import ManifestInvalid

    try:
        with session.project(manifest) as found:
            return found.manifest.project
    except ManifestInvalid as problem:
        from engine.operator.places import NAMED

        raise problem.advising(NAMED) from None


def _file(named: Path | None) -> Path:
    from engine.operator.tokens import NAME, settings_folder

    return named or settings_folder(os.environ) / NAME


def _me() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
