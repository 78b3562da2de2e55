# ruff: noqa
# fmt: off
"""Broken variants of the plugin: name, file, old text, new text, and a piece of the message that catches it, or None."""

SUITE = "TestHmacTicket"
CHECK = "authenticator:HMAC-TICKET"
P = "src/ottla_authenticator_hmac_ticket/plugin.py"
R = "src/ottla_authenticator_hmac_ticket/proofs.py"
PROVE = "        return Step(reply=proof(self._secret, CLIENT, self._user, self._nonce, challenge), done=False)"
END = "        return Step(reply=None, done=True)"
SIZE = "        if len(received) != PROOF_BYTES:\n"
MADE = "        return HmacTicketExchange(self.identity, self._secret)"
NONCE = "        self._nonce = secrets.token_bytes(NONCE_BYTES)\n"
COUNT = "        self._logins.add()\n"
FIRST = "        return first_message(self._user, self._nonce)"
SIZE_ERROR = "the broker's {NAME} proof has {len(received)} bytes in place of {PROOF_BYTES}"
REMEDY = '        self.remedy = f"check {USER} and {SECRET}, and that the broker knows this user for {NAME}"'

VARIANTS = [
    # The broker's proof
    ("proof_not_checked", P, "if not hmac.compare_digest(received, expected):", "if False:", "ended a login well"),
    ("proof_prefix_only", P, SIZE, "        expected = expected[: len(received)]\n        if False:\n", "a broker that proves nothing"),
    ("empty_proof_accepted", P, SIZE, "        if not received:\n            return Step(reply=None, done=True)\n" + SIZE, "a broker that proves nothing"),
    ("first_16_bytes_of_proof", P, "hmac.compare_digest(received, expected)", "hmac.compare_digest(received[:16], expected[:16])", "ended a login well; an impostor without the secret could pose as the broker"),
    ("last_byte_of_proof_ignored", P, "hmac.compare_digest(received, expected)", "hmac.compare_digest(received[:-1], expected[:-1])", "ended a login well; an impostor without the secret could pose as the broker"),
    ("done_too_early", P, PROVE, PROVE.replace("done=False", "done=True"), "ended"),
    ("own_proof_expected", P, "proof(self._secret, BROKER,", "proof(self._secret, CLIENT,", "message 2 of an honest broker was refused"),
    ("reflection_same_label", R, 'BROKER: Final = b"HMAC-TICKET broker"', "BROKER: Final = CLIENT", "the mechanism's own messages, sent back, ended a login well"),
    # Nonces and state
    ("nonce_constant", P, NONCE, "        self._nonce = bytes(NONCE_BYTES)\n", "an earlier login"),
    ("one_exchange", P, MADE, "        self._exchange = getattr(self, '_exchange', None) or HmacTicketExchange(self.identity, self._secret)\n        return self._exchange", "the same exchange twice"),
    ("nonce_anew_in_proof", P, "        self._expected = proof(", NONCE + "        self._expected = proof(", "an honest broker refused message 2"),
    ("nonce_unsigned", R, "parts = (who, user.encode(), nonce, challenge)", "parts = (who, user.encode(), challenge)", "an earlier login"),
    ("challenge_unsigned", R, "parts = (who, user.encode(), nonce, challenge)", "parts = (who, user.encode(), nonce)", None),
    ("last_step_never_done", P, END, END.replace("True", "False"), "both sides would wait for each other"),
    ("last_step_empty_reply", P, END, END.replace("None", 'b""'), "of HMAC-TICKET: a message after the end of the login"),
    ("start_twice_nonce", P, FIRST, "        self._nonce += b'0'\n" + FIRST, "of HMAC-TICKET: not the user, a zero byte and a nonce"),
    ("one_login_only", P, COUNT, COUNT + "        self._secret, secret = '', self._secret\n", "of HMAC-TICKET: not the proof of the user"),
    # Types
    ("start_text", P, FIRST, FIRST + ".hex()", "start()"),
    ("start_none", P, FIRST, "        return None", "start() returned a NoneType"),
    ("reply_text", P, PROVE, PROVE.replace("challenge)", "challenge).hex()"), "replied with a str"),
    ("reply_bytearray", P, PROVE, PROVE.replace("reply=proof(", "reply=bytearray(proof(").replace("challenge)", "challenge))"), "replied with a bytearray"),
    ("step_tuple", P, END, "        return None, True", "returned a tuple, which is not a Step"),
    ("challenge_async", P, "    def challenge(", "    async def challenge(", "returned a coroutine, which is not a Step"),
    ("name_lower_case", P, 'NAME: Final = "HMAC-TICKET"', 'NAME: Final = "hmac-ticket"', "; the name of a SASL mechanism has"),
    ("name_too_long", P, 'NAME: Final = "HMAC-TICKET"', 'NAME: Final = "HMAC-TICKET-WITH-SHA-256"', "; the name of a SASL mechanism has"),
    ("name_differs", P, 'NAME: Final = "HMAC-TICKET"', 'NAME: Final = "HMAC-TICKETS"', None),
    ("blocking_text", P, "    blocking = False", '    blocking = "no"', "blocking"),
    ("no_blocking", P, "    blocking = False\n", "", "blocking"),
    ("identity_bytes", P, "        self.identity = user\n", "        self.identity = user.encode()\n", "identity"),
    ("remedy_method", P, REMEDY, "        self.remedy = lambda: 'check the keys'", "remedy"),
    ("remedie", P, "        self.remedy = f", "        self.remedie = f", None),
    ("remedys", P, "        self.remedy = f", "        self.remedys = f", "remedys"),
    ("on_refused", P, "    def start(self)", "    def on_refused(self, *, certain: bool) -> None:\n        self._secret = ''\n\n    def start(self)", "is it meant to be `refused`?"),
    ("refused_without_certain", P, "    def start(self)", "    def refused(self) -> None:\n        self._secret = ''\n\n    def start(self)", "refused(certain=True) raised TypeError"),
    # Waiting
    ("waits_a_second", P, COUNT, "        __import__('time').sleep(1)\n" + COUNT, "the suite has taken 30 s"),
    ("waits_three_seconds", P, COUNT, "        __import__('time').sleep(3)\n" + COUNT, "do not wait, or say blocking = True"),
    ("waits_in_challenge", P, "            return self._prove(bytes(data))", "            __import__('time').sleep(3)\n            return self._prove(bytes(data))", "do not wait, or say blocking"),
    ("thread_never_ended", P, COUNT, COUNT + "        __import__('threading').Thread(target=__import__('time').sleep, args=(60,), daemon=True).start()\n", "left threads behind"),
    # Secrets
    ("secret_in_error", P, SIZE_ERROR, "the broker does not know {self._secret}", "secrets[0] is seen in"),
    ("secret_in_remedy", P, REMEDY, REMEDY.replace("this user", "{secret}"), "secrets[0] is seen in"),
    ("secret_in_repr", P, "    def start(self) -> bytes:", "    def __repr__(self) -> str:\n        return str(vars(self))\n\n    def start(self) -> bytes:", "secrets[0] is seen in"),
    ("secret_logged_when_made", P, COUNT.replace("add()", "X") if False else "        self._secret = secret\n        self._logins", '        self._secret = secret\n        context.logger.info("made for %s with %s", user, secret)\n        self._logins', "secrets[0] is seen in the log"),
    ("secret_logged_at_login", P, COUNT, COUNT + '        __import__("logging").getLogger("ottla.plugin").debug("logs in with %s", self._secret)\n', "secrets[0]"),
    ("secret_printed", P, COUNT, COUNT + "        print(self._secret)\n", "seen in what is printed"),
    ("key_not_secret", P, 'meaning="what both sides prove to know", secret=True)', 'meaning="what both sides prove to know")', None),
    # Data from the broker
    ("challenge_any_size", P, "        if len(challenge) not in CHALLENGE_BYTES:", "        if False:", None),
    ("challenge_decoded", P, "        if len(challenge) not in CHALLENGE_BYTES:", "        challenge.decode()\n        if len(challenge) not in CHALLENGE_BYTES:", "must be an AuthenticationError"),
    ("data_quoted", P, SIZE_ERROR, "the broker's {NAME} proof is {received!r}", "an error quotes the broker's message"),
    ("data_decoded_and_quoted", P, SIZE_ERROR, "the broker says {received.decode('latin-1')}", "an error quotes the broker's message"),
    ("value_error", P, "            raise AuthenticationError(f\"the broker's {NAME} proof has", "            raise ValueError(f\"the broker's {NAME} proof has", "must be an AuthenticationError"),
    ("error_without_text", P, "            raise AuthenticationError(f\"the broker's {NAME} proof has {len(received)} bytes in place of {PROOF_BYTES}\")", "            raise AuthenticationError", "which has no words"),
    ("assertion", P, SIZE, "        assert len(received) == PROOF_BYTES\n        if False:\n", "must be an AuthenticationError"),
    ("secret_truncated", R, "secret.encode()", "secret[:8].encode()", None),
    # A second round
    ("nonce_of_the_process", P, "    def __init__(self, user: str, secret: str) -> None:\n        self._user = user\n        self._secret = secret\n" + NONCE, "    def __init__(self, user: str, secret: str, nonce: bytes = secrets.token_bytes(NONCE_BYTES)) -> None:\n        self._user = user\n        self._secret = secret\n        self._nonce = nonce\n", "an earlier login"),
    ("identiy", P, "        self.identity = user\n", "        self.identiy = user\n", "is it meant to be `identity`"),
    ("refuse_misspelt", P, "    def start(self)", "    def refuse(self, *, certain: bool) -> None:\n        self._secret = ''\n\n    def start(self)", "is it meant to be `refused`?"),
    ("refused_raises", P, "    def start(self)", "    def refused(self, *, certain: bool) -> None:\n        raise RuntimeError(self._secret)\n\n    def start(self)", "secrets[0] is seen in a RuntimeError that it raised"),
    ("refused_waits", P, "    def start(self)", "    def refused(self, *, certain: bool) -> None:\n        __import__('time').sleep(5)\n\n    def start(self)", "refused(certain=True) did not return within 2 s"),
    ("secret_in_error_of_wrong_proof", P, "proof is wrong: it does not know {SECRET}", "proof is wrong: it does not know {self._secret}", "secrets[0] is seen in an AuthenticationError that it raised"),
    ("secret_in_error_of_challenge", P, "it must have {CHALLENGE_BYTES[0]} to", "{self._secret} must have {CHALLENGE_BYTES[0]} to", "secrets[0]"),
    ("shortened_proof_accepted", P, SIZE, "        expected = expected[: len(received)]\n        if not received:\n", "the broker's proof cut from 32 to 1 bytes ended a login well"),
    ("longer_proof_accepted", P, SIZE, "        received = received[:PROOF_BYTES]\n        if len(received) != PROOF_BYTES:\n", "the broker's proof with a byte appended ended a login well"),
    ("third_message_accepted", P, "    def _verify(self, received: bytes, expected: bytes) -> Step:\n        self._over = True\n", "    def _verify(self, received: bytes, expected: bytes) -> Step:\n", None),
]
