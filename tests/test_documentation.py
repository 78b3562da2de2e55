"""Every block of code in our documents runs as it is printed: Python against a real broker, commands, settings."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import attrs
import pytest
from packaging.requirements import Requirement

from documents import ROOT, Block, blocks, chains, pages
from ottla import Producer
from ottla.config.properties import read_properties
from ottla.plugins.registry.kinds import KINDS
from ottla_testkit.kafka_cluster import KafkaCluster
from secure_broker import PASSWORD, SecureBroker
from tox_environments import tox_environments

ALL: Final = [block for page in pages() for block in blocks(page)]
CHAINS: Final = [chain for page in pages() for chain in chains(page, "python")]
SUITES: Final = [chain for chain in CHAINS if "class Test" in chain[-1].program]
"""Those that are test modules; pytest runs them all in one process."""

ADDRESS: Final = re.compile(r"\b(?:localhost|kafka(?:-\d)?):9092\b(?:,kafka-\d:9092\b)*")
SECURE_ADDRESS: Final = re.compile(
    r"\bkafka(?:-\d|\.example\.com)?:909[34]\b|\bb-1[\w.-]+\.amazonaws\.com:9098\b|\bexample\.servicebus\.windows\.net:9093\b"
)
TOKEN_URL: Final = "https://idp.example.com/realms/x/token"
STARTS: Final = re.compile(r"\b(?:KafkaCluster|IdentityServer)\((?!\))")
"""In a block that starts something other than a broker as it comes."""

OWN_CLUSTER: Final = pytest.mark.thorough("a cluster of its own; the testkit's tests start such ones")
TOPICS: Final = ("orders", "invoices", "ledger", "clicks")
SENT_TO: Final = re.compile(r'(?:send|send_table)\("(\w+)"|"topic", "(\w+)"')
PROGRAM_TIMEOUT_S: Final = 120


def of(*languages: str) -> pytest.MarkDecorator:
    """A test for each block of these languages."""
    found = [block for block in ALL if block.language in languages]
    return pytest.mark.parametrize("block", found, ids=str)


def each_with_its_marks(chain: Sequence[Block]) -> Any:
    """A chain of blocks as a parameter; one that is given a Spark runs with the other tests of Spark."""
    uses_spark = any(name.startswith("spark") for block in chain for name in block.given)
    starts = any(STARTS.search(block.program) for block in chain)
    marks = [*([pytest.mark.spark] if uses_spark else []), *([OWN_CLUSTER] if starts else [])]
    return pytest.param(chain, id=str(chain[0]), marks=marks)


@attrs.frozen(kw_only=True)
class AccessToken:
    token: str
    expires_on: int


@attrs.frozen(kw_only=True)
class Credential:
    """Token functions like those of cloud vendors' libraries, for the test's own identity server."""

    fetch: Callable[[], str]

    def get_token(self, scope: str) -> AccessToken:
        assert scope
        return AccessToken(token=self.fetch(), expires_on=int(time.time()) + 3600)


@attrs.define(kw_only=True)
class Surroundings:
    """The objects that blocks are given; they are closed afterwards."""

    request: pytest.FixtureRequest
    folder: Path
    names: dict[str, Any] = attrs.Factory(dict)
    beginning: str = ""
    stack: ExitStack = attrs.Factory(ExitStack)

    @property
    def address(self) -> str:
        kafka: KafkaCluster = self.request.getfixturevalue("documented")
        return kafka.bootstrap_servers

    def producer(self) -> None:
        self.names["producer"] = self.stack.enter_context(Producer(bootstrap_servers=self.address))

    def transactional_producer(self) -> None:
        producer = Producer(bootstrap_servers=self.address, transactional_id=f"documented-{self.folder.name}")
        self.names["producer"] = self.stack.enter_context(producer)
        producer.init_transactions()

    def transaction(self) -> None:
        self.transactional_producer()
        self.names["producer"].begin_transaction()

    def store(self) -> None:
        kept: list[bytes] = []
        self.names |= {"store": kept.append, "load": lambda: kept[-1]}

    def table(self) -> None:
        import pyarrow

        self.names["table"] = pyarrow.table({"key": ["a", "b", None], "value": [b"1", b"2", b"3"]})

    def table_of_topics(self) -> None:
        import pyarrow

        self.names["table_of_topics"] = pyarrow.table({"topic": ["orders", "invoices", None], "value": ["1", "2", "3"]})

    def orders(self) -> None:
        """A table of numbers and text."""
        import pyarrow

        self.names["orders"] = pyarrow.table({"id": [1, 2], "price": [9.5, None], "customer": ["a", "b"]})

    def spark(self) -> None:
        self.names["spark"] = spark = self.request.getfixturevalue("spark")
        self.names["df"] = spark.range(5)

    def cluster(self) -> None:
        self.names["kafka"] = self.request.getfixturevalue("documented")

    def folder_of_the_test(self) -> None:
        self.names["tmp_path"] = self.folder

    def transport(self) -> None:
        self.beginning = "from ottla_transport_plaintext.plugin import PlaintextTransport as MyTransport\n"
        exec(self.beginning, self.names)

    def credential(self) -> None:
        secure: SecureBroker = self.request.getfixturevalue("documented_secure")
        self.names["credential"] = Credential(fetch=secure.identity.token)

    def token_url(self) -> None:
        self.names["token_url"] = self.request.getfixturevalue("documented_secure").identity.token_url

    def oauth_cb(self) -> None:
        """A token function for confluent-kafka."""
        secure: SecureBroker = self.request.getfixturevalue("documented_secure")
        self.names["oauth_cb"] = lambda _config: (secure.identity.token(), time.time() + 3600, "alice", {"trace": "a"})

    def amazons_package(self) -> None:
        secure = self._public_authority()
        provider = SimpleNamespace(
            generate_auth_token=lambda _region: (secure.identity.token(), int(time.time() + 900) * 1000)
        )
        self._module("aws_msk_iam_sasl_signer", MSKAuthTokenProvider=provider)

    def azures_package(self) -> None:
        secure = self._public_authority()
        self._module("azure.identity", DefaultAzureCredential=lambda: Credential(fetch=secure.identity.token))

    def _public_authority(self) -> SecureBroker:
        """The broker, whose certificate is trusted as that of a cloud's service is."""
        secure: SecureBroker = self.request.getfixturevalue("documented_secure")
        authority = str(secure.security.certificates.authority)
        self.request.getfixturevalue("monkeypatch").setenv("SSL_CERT_FILE", authority)
        return secure

    def _module(self, name: str, **contents: Any) -> None:
        """A module in the place of a package that needs an account of its vendor."""
        module = ModuleType(name)
        vars(module).update(contents)
        self.request.getfixturevalue("monkeypatch").setitem(sys.modules, name, module)

    def vault(self) -> None:
        """The file with the credentials of a program's producer."""
        self.names["vault"] = SimpleNamespace(read=lambda _path: {"username": "alice", "password": PASSWORD})

    def wrong_login(self) -> None:
        """A file of settings with a password that the broker does not take."""
        secure: SecureBroker = self.request.getfixturevalue("documented_secure")
        settings = secure.sasl("PLAIN", encrypted=True) | {"sasl.password": "not hers"}
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        (self.folder / "client.properties").write_text("".join(lines))

    def written(self, text: str) -> str:
        """The text with the addresses, files and passwords of this test."""
        if SECURE_ADDRESS.search(text):
            secure: SecureBroker = self.request.getfixturevalue("documented_secure")
            listener = (
                "SASL_SSL"
                if '"security.protocol": "SASL_SSL"' in text
                else "MUTUAL"
                if "ssl.keystore" in text
                else "SSL"
            )
            files = secure.security.certificates
            text = SECURE_ADDRESS.sub(secure.kafka.listener(listener), text)
            text = re.sub(r"[\w/]*authorit(?:y|ies)\.pem", str(files.authority), text)
            text = re.sub(r"[\w/]*client\.pem", str(files.alice), text)
            text = text.replace('"..."', repr(PASSWORD)).replace(TOKEN_URL, secure.identity.token_url)
        return ADDRESS.sub(self.address, text) if ADDRESS.search(text) else text


GIVEN: Final[Mapping[str, Callable[[Surroundings], None]]] = {
    "producer": Surroundings.producer,
    "transactional producer": Surroundings.transactional_producer,
    "transaction": Surroundings.transaction,
    "store": Surroundings.store,
    "table": Surroundings.table,
    "table_of_topics": Surroundings.table_of_topics,
    "orders": Surroundings.orders,
    "spark": Surroundings.spark,
    "spark session": Surroundings.spark,
    "kafka": Surroundings.cluster,
    "tmp_path": Surroundings.folder_of_the_test,
    "MyTransport": Surroundings.transport,
    "credential": Surroundings.credential,
    "token_url": Surroundings.token_url,
    "oauth_cb": Surroundings.oauth_cb,
    "aws_msk_iam_sasl_signer": Surroundings.amazons_package,
    "azure.identity": Surroundings.azures_package,
    "vault": Surroundings.vault,
    "a wrong login": Surroundings.wrong_login,
}


@pytest.fixture(scope="session")
def documented(kafka: KafkaCluster) -> KafkaCluster:
    """The session's broker, with the topics that documents write to."""
    for topic in TOPICS:
        kafka.create_topic(topic, partitions=3)
    return kafka


@pytest.fixture(scope="session")
def documented_secure(secure: SecureBroker) -> SecureBroker:
    """The same, with TLS and authentication."""
    for topic in TOPICS:
        secure.kafka.create_topic(topic)
    return secure


@pytest.fixture
def surroundings(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Surroundings]:
    """Another folder to work in, and everything that a block leaves behind ended."""
    monkeypatch.chdir(tmp_path)
    found = Surroundings(request=request, folder=tmp_path)
    with found.stack:
        yield found


@pytest.mark.kafka
@pytest.mark.parametrize("chain", [each_with_its_marks(chain) for chain in CHAINS if chain not in SUITES])
def test_a_python_block_runs(chain: Sequence[Block], surroundings: Surroundings) -> None:
    for block in chain:
        for name in block.given:
            GIVEN[name](surroundings)
        left = run(surroundings.written(block.program), str(block), surroundings.names)
        if isinstance(left, Producer):
            with left:
                left.send("orders", b"this user gets in").result(timeout=30)
    for test in [found for name, found in surroundings.names.items() if name.startswith("test_")]:
        arguments = test.__code__.co_varnames[: test.__code__.co_argcount]
        test(**{each: surroundings.request.getfixturevalue(each) for each in arguments})


@pytest.mark.thorough("the packages' own tests run the same suites")
def test_the_suites_of_python_blocks_pass(surroundings: Surroundings) -> None:
    """Run the classes of tests in blocks, as their reader would."""
    for chain in SUITES:
        given = attrs.evolve(surroundings, names={}, beginning="")
        for block in chain:
            for name in block.given:
                GIVEN[name](given)
        text = "\n".join([given.beginning, *(block.program for block in chain)])
        (surroundings.folder / module_of(chain)).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(surroundings.folder)]
    done = subprocess.run(
        command, cwd=surroundings.folder, capture_output=True, text=True, timeout=5 * PROGRAM_TIMEOUT_S
    )

    assert done.returncode == 0, done.stdout
    assert [name for name in map(module_of, SUITES) if f"{name}::" not in done.stdout] == []


@of("python")
def test_a_python_block_is_valid(block: Block) -> None:
    if block.compiled:
        compile(block.program, str(block), "exec")


@of("console", "bash", "sh")
def test_the_commands_of_a_block_work(block: Block, surroundings: Surroundings) -> None:
    if not block.runs:
        return
    for name in block.given:
        GIVEN[name](surroundings)
    for command in commands(block):
        work(command, block, surroundings)


@of("toml")
def test_a_toml_block_is_valid_and_names_existing_groups(block: Block) -> None:
    groups = tomllib.loads(block.text).get("project", {}).get("entry-points", {})

    assert set(groups) <= {kind.group for kind in KINDS.values()} | {"pytest11", "ottla.conformance"}


@of("json")
def test_a_json_block_is_valid(block: Block) -> None:
    json.loads(block.text)


@of("properties")
def test_a_properties_block_is_valid(block: Block) -> None:
    assert read_properties(block.text)


def test_every_block_has_its_language_and_a_reason_if_it_is_not_run() -> None:
    known = {"python", "console", "bash", "sh", "toml", "json", "properties", "sql", "text", "diff"}

    assert [str(block) for block in ALL if block.language not in known] == []
    assert [str(block) for block in ALL if not block.runs and not block.reason] == []


def test_extras_in_pip_commands_are_quoted() -> None:
    """Without quotation marks, zsh, the shell of macOS, takes the brackets for a pattern of file names."""
    commands = [
        (page, part)
        for page in pages()
        for command in re.findall(r"pip install ((?:[^\n`\\]|\\\n)*)", (ROOT / page).read_text("utf-8"))
        for part in re.findall(r"(?<!\S)[\w./-]+\[[^#]*", command)
    ]
    assert commands == []


def test_most_blocks_are_run() -> None:
    """Else the tests above would promise nothing."""
    assert len(CHAINS) > 20


def test_the_tutorial_creates_every_topic_that_it_uses() -> None:
    blocks = [block for block in ALL if block.page == "docs/tutorial.md"]
    programs = [block.text for block in blocks if block.language == "python"]
    [maker] = [block.text for block in blocks if "python -m ottla_testkit" in block.text]
    sent_to = {name for text in programs for found in SENT_TO.findall(text) for name in found if name}

    assert sent_to - {"odrers"} == set(re.findall(r"--topic (\w+):3", maker))


def module_of(chain: Sequence[Block]) -> str:
    """The name of a test module with these blocks."""
    return "test_" + re.sub(r"\W", "_", str(chain[0])) + ".py"


def run(text: str, name: str, names: dict[str, Any]) -> Any:
    """Run a program; returns what its last line leaves, if that is an expression."""
    tree = ast.parse(text, filename=name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if isinstance(last, ast.Expr) else None


def commands(block: Block) -> Iterator[str]:
    """The commands of a block, without their prompt, their comments and what they print."""
    lines = block.program.replace("\\\n", " ").splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if prompted and not line.startswith("$ "):
            continue
        yield from re.split(r"\s&&\s", re.sub(r"\s+#.*", "", line.removeprefix("$ ")))


def work(command: str, block: Block, surroundings: Surroundings) -> None:
    """Carry a command out, or look whether what it names is there."""
    match words := shlex.split(command):
        case []:
            pass
        case ["ottla", *arguments] | ["python", "-m", "ottla", *arguments]:
            ended = ottla([surroundings.written(each) for each in arguments], surroundings)
            assert ended.returncode == block.exit_code, ended.stdout + ended.stderr
        case ["pip", "install", *requirements]:
            for requirement in requirements:
                check_requirement(requirement)
        case ["tox", *arguments]:
            assert "-e" not in arguments or arguments[arguments.index("-e") + 1] in tox_environments()
        case ["python", file, *_]:
            assert (ROOT / file).is_file()
        case _:
            pytest.fail(f"{block}: there is no way to run {words[0]!r}; say `not run, REASON` in a comment before it")


def ottla(arguments: Sequence[str], surroundings: Surroundings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=surroundings.folder, env=environment, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S
    )


def check_requirement(requirement: str) -> None:
    """Of our own packages the distribution exists, with these extras."""
    if requirement.startswith(("-", "packages/", ".")):
        return
    wanted = Requirement(requirement)
    if not wanted.name.startswith("ottla"):
        return
    projects = [tomllib.loads(path.read_text())["project"] for path in ROOT.glob("packages/*/pyproject.toml")]
    extras = {project["name"]: set(project.get("optional-dependencies", ())) for project in projects}
    assert wanted.name in extras
    assert wanted.extras <= extras[wanted.name]
