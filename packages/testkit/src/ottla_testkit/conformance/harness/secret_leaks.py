"""Check for secrets in a text, a repr, or an error and its causes."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from ottla.errors import with_article
from ottla_testkit.conformance.harness.checked_layer import check


class Secrets:
    """Secrets to search for. Messages have their *name* and number, because a message must not quote them either."""

    def __init__(self, secrets: Sequence[str], *, name: str = "secrets") -> None:
        self._secrets = secrets
        self._name = name

    def check_silent(self, what: str, thing: object) -> None:
        """Check that the repr and the str of an object show no secret."""
        self.check_text(f"the repr of {what}", f"{thing!r} {thing!s}")

    def check_error(self, error: BaseException) -> None:
        """Check that an error, its notes, and the errors that caused it show no secret."""
        seen: BaseException | None = error
        while seen is not None:
            notes = " ".join(getattr(seen, "__notes__", ()))
            self.check_text(f"{with_article(type(seen).__name__)} that it raised", f"{seen} {seen!r} {notes}")
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)

    def check_text(self, where: str, text: str) -> None:
        """Check that a text contains no secret: plain, in base64 or in hexadecimal digits."""
        for number, secret in enumerate(self._secrets):
            encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
            check(
                secret not in text and encoded not in text and secret.encode().hex() not in text,
                f"{self._name}[{number}] is seen in {where}",
            )
