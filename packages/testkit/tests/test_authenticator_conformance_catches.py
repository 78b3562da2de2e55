"""The suite for authenticators catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_caught, assert_passed, each_of
from wrong_mechanisms import PASSWORD

pytest_plugins = ["pytester"]

MORE = """secrets = ({password!r},)
    mutual = True
    at_once = {at_once}

    @pytest.fixture
    def broker(self):
        return wrong_mechanisms.Broker
"""
WRONG = [
    ("HasABlankInItsName", "contract", "name is 'proof of x'; the name of a SASL mechanism has 1 to 20 of"),
    ("DoesNotSayWhetherItBlocks", "contract", "blocking is None, which is neither True nor False"),
    ("DoesNotSayWhetherItIsConcurrent", "contract", "concurrent_logins is 'yes', which is neither True nor False"),
    (
        "WaitsAsALoginBegins",
        "honest_broker",
        r"authenticator\(\) did not return within 0.5 s; with concurrent_logins = True the I/O thread waits",
    ),
    ("IsItsOwnExchange", "own_exchange", r"authenticator\(\) returned the same exchange twice"),
    ("SharesItsNonce", "concurrent_logins", "message 2 of an honest broker was refused"),
    ("NeedsAHostWithDots", "broker_name", r"authenticator\(\) raised IndexError"),
    ("SaysText", "honest_broker", r"start\(\) returned a str; it must be bytes"),
    ("ReturnsAPair", "honest_broker", r"challenge\(\) with .* returned a tuple, which is not a Step"),
    ("HasNothingToSay", "honest_broker", "has nothing to reply and is not done either: both sides would wait"),
    ("SaysTooMuch", "honest_broker", "gave 1048576 bytes to send; no broker takes more than 524288"),
    ("NeverEnds", "honest_broker", "the login did not end after 64 messages, at an honest broker"),
    ("IsDoneTooEarly", "honest_broker", "is done after 1 messages of the broker, which does not know"),
    ("ForgetsThePassword", "honest_broker", "an honest broker refused message 2 of X-PROOF: the proof is wrong"),
    ("CrashesOnGarbage", "garbage", "raised (UnicodeDecodeError|ValueError); what it refuses must be an Auth"),
    ("CrashesOnGarbage", "damaged", "raised (UnicodeDecodeError|ValueError); what it refuses must be an Auth"),
    ("TrustsAnybody", "garbage", "ended the login well; a broker that proves nothing may be an impostor"),
    ("HasOneNonce", "old_login", "the messages of an earlier login ended a login well"),
    ("TakesTheFirstForTheSecond", "out_of_order", "a broker's first message twice ended a login well"),
    ("RemembersThatItWasFooled", "next_login", "message 1 of an honest broker was refused: never again"),
    ("RemembersThatItWasFooled", "garbage", "message 1 of an honest broker was refused|refused: never again"),
    ("ShowsItselfWhole", "secrets", r"secrets\[0\] is seen in the repr of the mechanism"),
    ("ShowsItInAnExchange", "secrets", r"secrets\[0\] is seen in the repr of an exchange"),
    ("TellsItAsARemedy", "secrets", r"secrets\[0\] is seen in `remedy`"),
    ("TellsItInAnError", "secrets", r"secrets\[0\] is seen in a ValueError that it raised"),
    ("LogsIt", "secrets", r"secrets\[0\] is seen in the log"),
    ("PrintsIt", "secrets", r"secrets\[0\] is seen in what is printed"),
    (
        "WaitsWithoutSaying",
        "honest_broker",
        r"start\(\) did not return within 0.5 s; .*do not wait, or say blocking = True",
    ),
    ("ComputesForEver", "garbage", r"did not return within 1 s; no other connection can log in meanwhile"),
    ("TakesAShortenedProof", "changed_proof", r"proof cut from 64 to 1 bytes ended a login well; an impostor"),
    ("ComparesHalfOfTheProof", "changed_proof", r"the broker's proof with another byte 63 ended a login well"),
    ("TakesALongerProof", "changed_proof", "the broker's proof with a byte appended ended a login well"),
    ("TakesItsOwnProof", "its_own_messages", "own messages, sent back, ended a login well; .* proofs must differ"),
    ("TellsItAfterAWrongProof", "changed_proof", r"secrets\[0\] is seen in an AuthenticationError that it raised"),
    ("LogsItWhenItIsMade", "secrets", r"secrets\[0\] is seen in the log"),
    ("QuotesTheBroker", "not_quoted", "an error quotes the broker's message 'what-the-broker-has-sent'"),
    ("NotesRefusalsWithoutCertain", "noted_at_once", r"refused\(certain=True\) raised TypeError"),
    ("RaisesForARefusal", "noted_at_once", r"secrets\[0\] is seen in a RuntimeError that it raised"),
    ("WaitsAfterARefusal", "noted_at_once", r"refused\(certain=True\) did not return within 0.5 s; the I/O thread"),
    ("RefusesByAnotherName", "of_an_exchange", "has `on_refused`, .* is it meant to be `refused`"),
    ("NotesRefusalsItself", "of_an_exchange", "has `refused`, which the core does not use: it is called on the exch"),
    ("RaisesInClose", "background_work", r"close\(\) raised AuthenticationError"),
    ("LeavesAThread", "background_work", r"close\(\) left threads behind: left-behind"),
]


SUITE = Suite(
    name="AuthenticatorConformance",
    subject="mechanism",
    module="wrong_mechanisms",
    more=lambda timeout: MORE.format(password=PASSWORD, at_once=timeout / 2),
)


@each_of(WRONG)
def test_a_broken_promise_of_a_mechanism_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_mechanism_may_declare_that_it_checks_answers(pytester: pytest.Pytester) -> None:
    def run(declared: str) -> pytest.RunResult:
        more = MORE.format(password=PASSWORD, at_once=15.0).replace("mutual = True", declared)
        more = more.replace("wrong_mechanisms.Broker", "wrong_mechanisms.TokenBroker")
        return SUITE.run(pytester, "SendsAToken()", "-x", "-k", "garbage", more=more)

    assert_caught(run("checks_answers = True"), "ended the login well, and no honest broker sends it: refuse what is")
    assert_passed(run("checks_answers = False"))


@pytest.mark.parametrize("mechanism", ["Right()", "EndsItsThread()", "NotesRefusals()"])
def test_a_mechanism_that_keeps_all_promises_passes(pytester: pytest.Pytester, mechanism: str) -> None:
    SUITE.assert_passes(pytester, mechanism)


def test_without_a_broker_the_untested_promises_are_named(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Right()", "-rs", more="")

    assert_passed(result)
    result.stdout.fnmatch_lines(["*no fixture `broker` makes the other half of a login*", "*`secrets` is empty*"])


def test_a_name_other_than_the_entry_points_is_caught(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Right()", "-k", "contract", more="entry_point = 'PROOF'")

    assert_caught(result, "name is 'X-PROOF', and the entry point's is 'PROOF'")
