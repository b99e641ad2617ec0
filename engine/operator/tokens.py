"""A project's own operators' tokens: the key pair that a laptop keeps, and what is signed with it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from engine.errors import OperatorKeyUnusable
from engine.operator.claims import EDDSA, ISSUER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from engine.clock import Chance

NAME: Final = "operator.pem"
"""The file of the private key, where none is named."""


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """A private key that signs operators' tokens."""

    private: Ed25519PrivateKey

    @classmethod
    def drawn(cls, file: Path) -> Self:
        """Draw a key and keep it in the new `file`, for its owner alone. Raise `OperatorKeyUnusable`."""
        key = cls(_cryptography(file).Ed25519PrivateKey.generate())
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept:
                kept.write(key._pem)
        except OSError as problem:
            raise OperatorKeyUnusable(file=str(file), found=f"cannot be written ({problem.strerror})") from problem
        return key

    @classmethod
    def kept(cls, file: Path) -> Self:
        """The key in `file`. Raise `OperatorKeyUnusable` where it is none, or where others may read it."""
        private = _cryptography(file).Ed25519PrivateKey
        try:
            if file.is_dir():
                raise OperatorKeyUnusable(file=str(file), found="is a folder")
            if file.stat().st_mode & 0o077:
                refusal = OperatorKeyUnusable(file=str(file), found="may be read by others than its owner")
                refusal.remedy = f"chmod 600 {file}; whoever may have read it makes tokens: consider a new key"
                raise refusal
            content = file.read_bytes()
        except FileNotFoundError:
            raise OperatorKeyUnusable(file=str(file), found="is not there") from None
        except OSError as problem:
            raise OperatorKeyUnusable(file=str(file), found=f"cannot be read ({problem.strerror})") from problem
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - an extra

        try:
            found = load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, private):
            raise OperatorKeyUnusable(file=str(file), found="holds no Ed25519 private key")
        return cls(found)

    @property
    def public(self) -> str:
        """The public key as the Worker's variable OPERATOR_KEYS lists it: its name, and the key."""
        return f"{self.id}:{_text(self._raw)}"

    @property
    def id(self) -> str:
        """The key's name: it follows from the key."""
        return hashlib.sha256(self._raw).hexdigest()[:16]

    def token(self, *, project: str, operator: str, ttl_s: int, now_s: int, chance: Chance) -> str:
        """A token by which `operator` asks about the guards of `project` for `ttl_s` seconds from `now_s` on."""
        claims = {
            "iss": ISSUER,
            "aud": project,
            "sub": operator,
            "iat": now_s,
            "exp": now_s + ttl_s,
            "jti": chance.token(),
        }
        return signed({"alg": EDDSA, "typ": "JWT", "kid": self.id}, claims, self.private.sign)

    @property
    def _raw(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def _pem(self) -> bytes:
        from cryptography.hazmat.primitives import serialization as how  # noqa: PLC0415 - an extra

        return self.private.private_bytes(how.Encoding.PEM, how.PrivateFormat.PKCS8, how.NoEncryption())


def signed(header: Mapping[str, Any], claims: Mapping[str, Any], sign: Any) -> str:
    """The compact JWT of `header` and `claims`, its signature made by `sign`."""
    parts = ".".join(_text(json.dumps(each, separators=(",", ":")).encode()) for each in (header, claims))
    return f"{parts}.{_text(sign(parts.encode()))}"


def settings_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own settings of contextful."""
    chosen = environ.get("XDG_CONFIG_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".config"
    return base / "contextful"


def _cryptography(file: Path) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as absent:
        refusal = OperatorKeyUnusable(file=str(file), found="needs the package cryptography, which is not installed")
        refusal.remedy = "pip install 'contextful[cloudflare]'"
        raise refusal from absent
    return ed25519


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
