"""What both sides of a login compute: the proofs, and the first message.

| from | message |
|---|---|
| client | the user's name in UTF-8, a zero byte, a nonce of 32 bytes |
| broker | its challenge: 16 to 1024 bytes |
| client | the client's proof, 32 bytes |
| broker | the broker's proof, 32 bytes |

A proof is the HMAC-SHA-256, with the secret as its key, of who proves, the user, the nonce and the challenge, each
preceded by its length. So neither side can send the other one's proof back, and no two logins have the same proofs.
"""

from __future__ import annotations

import hmac
from typing import Final

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
CHALLENGE_BYTES: Final = range(16, 1025)

CLIENT: Final = b"HMAC-TICKET client"
BROKER: Final = b"HMAC-TICKET broker"


def first_message(user: str, nonce: bytes) -> bytes:
    """Return the client's first message."""
    return user.encode() + b"\0" + nonce


def proof(secret: str, who: bytes, user: str, nonce: bytes, challenge: bytes) -> bytes:
    """Return the proof of *who*, `CLIENT` or `BROKER`."""
    parts = (who, user.encode(), nonce, challenge)
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(secret.encode(), message, "sha256")
