"""A real OpenID Connect server on 127.0.0.1 that issues tokens to clients, for the duration of a `with` block.

It accepts any client's id and secret, and any assertion. Its jars are fetched as Kafka's are.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final, Self

from ottla_testkit.errors import ClusterError, PortInUseError, tail
from ottla_testkit.java.download import Artifact
from ottla_testkit.java.jars import fetched_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.processes.process import Process

SERVER: Final = Artifact(group="no.nav.security", name="mock-oauth2-server", version="2.1.10")
MAIN: Final = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
READY_WITHIN: Final = 60.0  # seconds

GRANTS: Final = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")
"""The grant types that clients may use."""

_NAME: Final = "ottla"


class IdentityServer:
    """Issue tokens for `subject` that are valid for *lifetime_s* seconds."""

    audience: Final = "kafka"

    def __init__(self, *, subject: str = "alice", lifetime_s: int = 3600) -> None:
        self.subject = subject
        self.lifetime_s = lifetime_s
        self._port = 0
        self._process: Process | None = None
        self._folder: Path | None = None

    @property
    def issuer(self) -> str:
        """The issuer in its tokens."""
        return f"http://{HOST}:{self._port}/{_NAME}"

    @property
    def token_url(self) -> str:
        """The URL where clients request tokens (`sasl.oauthbearer.token.endpoint.url`)."""
        return f"{self.issuer}/token"

    @property
    def keys_url(self) -> str:
        """The URL of the keys with which brokers verify tokens (JWKS)."""
        return f"{self.issuer}/jwks"

    def token(self) -> str:
        """Return a new token, as a client with credentials gets it."""
        form = {"grant_type": "client_credentials", "client_id": "test", "client_secret": "test", "scope": "produce"}
        body = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(self.token_url, body, timeout=10) as answer:
            return str(json.load(answer)["access_token"])

    def __enter__(self) -> Self:
        java, jars = java_command(), fetched_jars(f"{SERVER.name}-{SERVER.version}", [SERVER])
        self._folder = folder = Path(tempfile.mkdtemp(prefix="ottla-identity-"))
        [self._port] = free_ports(1)
        settings = {
            "JSON_CONFIG": json.dumps(self._config()),
            "SERVER_HOSTNAME": HOST,
            "SERVER_PORT": str(self._port),
        }
        command = [
            *("env", *(f"{name}={value}" for name, value in settings.items())),
            *(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", MAIN),
        ]
        self._process = Process("the identity server", command=command, log_file=folder / "log")
        try:
            self._process.start()
            self._await()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and remove its files; done by leaving the `with` block."""
        if self._process is not None:
            self._process.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _config(self) -> object:
        claims = {"sub": self.subject, "aud": [self.audience], "scope": "produce"}
        mappings = [{"requestParam": "grant_type", "match": grant, "claims": claims} for grant in GRANTS]
        callback = {"issuerId": _NAME, "tokenExpiry": self.lifetime_s, "requestMappings": mappings}
        return {"interactiveLogin": False, "httpServer": "NettyWrapper", "tokenCallbacks": [callback]}

    def _await(self) -> None:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and process.running:
            with (
                contextlib.suppress(urllib.error.URLError, OSError),
                urllib.request.urlopen(f"http://{HOST}:{self._port}/isalive", timeout=5),
            ):
                return
            time.sleep(0.05)
        kind = PortInUseError if process.port_taken else ClusterError
        raise kind(f"the identity server does not respond:\n{tail(process.log)}")
