"""Finding, loading and judging plugins, with packages that are really installed, on a path of their own."""

from __future__ import annotations

import importlib
import logging
import os
import pathlib
import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Protocol

import attrs
import pytest

from ottla.config import ConfigDraft
from ottla.errors import ConfigError, InvalidPluginError, PluginNotFoundError
from ottla.interfaces import ConfigKey, Partitioner, Serializer
from ottla.plugins.registry import KINDS, Plugin, Registry, make_alone
from ottla.plugins.registry.installed import announced
from ottla.plugins.registry.kinds import FormerGeneration
from ottla.version import __version__
from plugin_site import Site, plugin_site

site = plugin_site

GROUPS = {kind: KINDS[kind].group for kind in KINDS}
GOOD = """
    from ottla.hookspecs import hookimpl
    from ottla.interfaces import ConfigKey

    class First:
        def partition(self, topic, key, view):
            return 0

    @hookimpl
    def ottla_partitioner(config):
        made = First()
        made.config = config
        return made

    @hookimpl
    def ottla_config_keys():
        return [ConfigKey(name="first.bias", type=int, default=3, meaning="how much")]
"""


def broken(kind: str = "partitioner", name: str = "first") -> str:
    """The error for a plugin that cannot be used, raised when it is created at the latest."""
    with pytest.raises(InvalidPluginError) as caught:
        Registry().plugin(kind, name).create({})  # type: ignore[arg-type]
    return str(caught.value)


def test_an_installed_plugin_is_found_loaded_and_created(site: Site) -> None:
    site.install(GOOD)
    plugin = Registry().plugin("partitioner", "first")

    assert isinstance(plugin.create({}), Partitioner)
    assert (plugin.name, plugin.distribution, plugin.version) == ("first", "acme", "1.0")


def test_installed_and_removed_packages_are_noticed_without_rereading(
    site: Site, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # without folders in which other tests write just now
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: site.install(GOOD),
        lambda: shutil.rmtree(tmp_path / "acme-1.0.dist-info"),
    ]
    there = []
    for number, change in enumerate(changes):
        change()
        os.utime(tmp_path, (number, number))  # long ago, and at another time than before
        importlib.invalidate_caches()
        found = announced()
        assert announced() is found
        there.append("first" in {entry.name for entry in found})

    assert there == [False, True, False]


def test_a_recently_changed_folder_is_read_again(site: Site) -> None:
    site.install(GOOD)

    assert announced() is not announced()


@pytest.mark.parametrize("written", ["FIRST", "First", " first "])
def test_names_are_case_insensitive(site: Site, written: str) -> None:
    site.install(GOOD, name="fIRST")

    assert Registry().plugin("partitioner", written).name == "fIRST"


def test_a_plugin_is_loaded_once_and_shared(site: Site) -> None:
    site.install(GOOD)
    registry = Registry()

    assert registry.plugin("partitioner", "first") is registry.plugin("partitioner", "FIRST")


def test_only_the_chosen_plugin_is_loaded(site: Site) -> None:
    chosen = site.install(GOOD)
    other = site.install(GOOD, dist="other", name="second")
    Registry().plugin("partitioner", "first")

    assert chosen in sys.modules
    assert other not in sys.modules


def test_listing_loads_no_plugin_and_shows_broken_ones(site: Site) -> None:
    module = site.install("1 / 0")
    [info] = [info for info in Registry().installed("partitioner") if info.name == "first"]

    assert ("acme", "1.0", module) == (info.distribution, info.version, info.value)
    assert f"partitioner 'first' of acme 1.0 ({module})" == str(info)
    assert module not in sys.modules


def test_declared_keys_make_the_config_of_the_hook(site: Site) -> None:
    site.install(GOOD)
    plugin = Registry().plugin("partitioner", "first")
    draft = ConfigDraft.read({"bootstrap.servers": "kafka:9092", "first.bias": "5"})
    config = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish()

    assert plugin.create(config).config == {"first.bias": 5}


def test_a_plugin_without_keys_has_none(site: Site) -> None:
    site.install(GOOD.replace("@hookimpl\n    def ottla_config_keys", "def my_keys"))

    assert Registry().plugin("partitioner", "first").config_keys() == ()


OBJECT = """
    from ottla.hookspecs import hookimpl

    class Same:
        def __init__(self):
            self.made_for = []

        @hookimpl
        def ottla_serializer(self, config, is_key):
            self.is_key = is_key
            return self

        def serialize(self, topic, data, headers):
            return b""

    same = Same()
"""


@pytest.mark.parametrize("attr", [":Same", ":same"])
def test_an_entry_point_may_be_a_class_or_an_object(site: Site, attr: str) -> None:
    site.install(OBJECT, name="same", kind="serializer", attr=attr)
    made = Registry().plugin("serializer", "same").create({}, is_key=True)

    assert made.is_key is True
    assert isinstance(made, Serializer)


def test_a_hook_may_leave_out_arguments(site: Site) -> None:
    site.install(GOOD.replace("ottla_partitioner(config)", "ottla_partitioner()").replace("= config", "= None"))

    assert Registry().plugin("partitioner", "first").create({}).config is None


@pytest.mark.parametrize(
    ("kind", "name", "remedy"),
    [
        ("transport", "plaintext", "try: pip install ottla-transport-plaintext ("),
        ("transport", "ssl", "try: pip install ottla-transport-ssl ("),
        ("reporter", "Prometheus", "try: pip install ottla-reporter-prometheus ("),
        ("reporter", "opentelemetry", "try: pip install ottla-opentelemetry ("),
        ("interceptor", "opentelemetry", "try: pip install ottla-opentelemetry ("),
        ("authenticator", "SCRAM-SHA-512", "try: pip install ottla-authenticator-sasl ("),
        ("authenticator", "GSSAPI", 'try: pip install "ottla-authenticator-sasl[gssapi]" ('),
        ("compressor", "lz4", 'try: pip install "ottla[lz4]" ('),
        ("compressor", "gzpi", "did you mean 'gzip'?"),
        ("partitioner", "murmur2", "try: pip install ottla ("),
        ("reporter", "graphite", "an entry point of this name in the group ottla.reporters"),
    ],
)
def test_a_missing_plugin_says_what_to_install(kind: str, name: str, remedy: str) -> None:
    with pytest.raises(PluginNotFoundError) as caught:
        Registry([]).plugin(kind, name)  # type: ignore[arg-type]

    assert str(caught.value).startswith(f"no {kind} is named {name!r}; ")
    assert remedy in str(caught.value)
    assert str(caught.value).endswith("(installed: none)")


@pytest.mark.parametrize(
    ("kind", "name", "module"),
    [
        ("transport", "plaintext", "ottla_transport_plaintext"),
        ("authenticator", "GSSAPI", "ottla_authenticator_sasl"),
        ("compressor", "lz4", "ottla"),
    ],
)
def test_a_frozen_program_lacks_metadata(monkeypatch: pytest.MonkeyPatch, kind: str, name: str, module: str) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(PluginNotFoundError, match=rf"needs the package's metadata; .*: --collect-all {module} \("):
        Registry([]).plugin(kind, name)  # type: ignore[arg-type]


def test_a_missing_plugin_says_what_is_installed(site: Site) -> None:
    entries = [EntryPoint(name, "x", "ottla.transports") for name in ("unix", "Socks5")]

    with pytest.raises(PluginNotFoundError, match=r"did you mean 'socks5'\? \(installed: Socks5, unix\)"):
        Registry(entries).plugin("transport", "sock5")


def test_a_plugin_of_another_kind_does_not_count() -> None:
    with pytest.raises(PluginNotFoundError):
        Registry([EntryPoint("first", "x", "ottla.transports")]).plugin("partitioner", "first")


def test_two_packages_with_one_name_are_an_error_only_for_that_name(site: Site) -> None:
    site.install(GOOD)
    site.install(GOOD, dist="Other_Pkg", name="FIRST")
    site.install(GOOD, dist="third", name="second")

    assert Registry().plugin("partitioner", "second").create({})
    said = broken()
    assert "more than one partitioner is named 'first'; write acme:first or other-pkg:first (" in said
    assert "of acme 1.0" in said
    assert "of Other_Pkg 1.0" in said


@pytest.mark.parametrize("written", ["other-pkg:first", "Other_Pkg:FIRST", " other.pkg : first "])
def test_package_and_name_choose_one_of_several(site: Site, written: str) -> None:
    site.install(GOOD)
    site.install(GOOD, dist="Other_Pkg", name="First")

    assert Registry().plugin("partitioner", written).distribution == "Other_Pkg"


def test_the_name_of_a_built_in_plugin_stays_its_own(site: Site) -> None:
    site.install(GOOD, name="murmur2")
    registry = Registry()

    assert registry.plugin("partitioner", "murmur2").distribution == "ottla"
    assert registry.plugin("partitioner", "acme:murmur2").distribution == "acme"
    assert registry.plugin("partitioner", "ottla:murmur2") is registry.plugin("partitioner", "murmur2")


def test_a_package_without_such_a_plugin_is_not_found(site: Site) -> None:
    site.install(GOOD)

    with pytest.raises(PluginNotFoundError, match=r"named 'acmee:first'; did you mean 'acme:first'\? \(installed"):
        Registry().plugin("partitioner", "acmee:first")


def test_a_name_with_a_colon_is_found_as_it_is(site: Site) -> None:
    site.install(GOOD, name="x:y")

    assert Registry().plugin("partitioner", "x:y").name == "x:y"
    assert Registry().plugin("partitioner", "acme:x:y").name == "x:y"


def test_a_package_that_offers_a_name_twice_says_so_when_chosen(site: Site) -> None:
    module = site.install(GOOD)
    site.install_metadata("other", f"[ottla.partitioners]\nsame = {module}\nSame = {module}\n")
    registry = Registry()

    assert "uninstall all but one" in broken(name="other:same")
    assert [registry.chosen_by(info) for info in registry.installed("partitioner") if "ame" in info.name] == [None] * 2


def test_the_shortest_name_that_chooses_a_plugin_is_known(site: Site) -> None:
    site.install(GOOD)
    site.install(GOOD, dist="other", name="FIRST")
    site.install(GOOD, dist="third", name="third")
    registry = Registry()
    names = {info.distribution: registry.chosen_by(info) for info in registry.installed("partitioner")}

    assert names == {"acme": "acme:first", "other": "other:FIRST", "third": "third", "ottla": names["ottla"]}


def test_a_second_copy_of_a_distribution_is_not_a_second_plugin(
    site: Site, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install(GOOD)
    old = tmp_path / "old"
    old.mkdir()
    Site(old).install("1 / 0", dist="Acme")
    monkeypatch.setattr(sys, "path", [*sys.path, str(old)])

    assert Registry().plugin("partitioner", "first").distribution == "acme"


def test_a_failing_import_names_distribution_entry_point_and_cause(site: Site) -> None:
    module = site.install("import there_is_no_such_module")

    with pytest.raises(InvalidPluginError) as caught:
        Registry().plugin("partitioner", "first")
    assert str(caught.value).startswith(f"partitioner 'first' of acme 1.0 ({module}) cannot be imported")
    assert "No module named 'there_is_no_such_module'" in str(caught.value)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
        (GOOD.replace("made = First()", "raise SystemExit"), "ottla_partitioner raised SystemExit"),
    ],
)
def test_a_plugin_that_would_end_the_program_is_only_broken(site: Site, source: str, reported: str) -> None:
    site.install(source)

    assert reported in broken()


@pytest.mark.parametrize("attr", [":", ":First()", " of mine"])
def test_an_invalid_entry_point_is_reported(site: Site, attr: str) -> None:
    site.install(GOOD, attr=attr)

    assert "is not an entry point; write 'module' or 'module:object'" in broken()


@pytest.mark.parametrize("attr", [":Missing", ":hookimpl.x.y"])
def test_an_entry_point_to_a_missing_object_is_reported(site: Site, attr: str) -> None:
    site.install(GOOD, attr=attr)

    assert "cannot be imported: AttributeError" in broken()


def test_a_class_that_requires_arguments_is_reported(site: Site) -> None:
    site.install(
        OBJECT.replace("__init__(self)", "__init__(self, x)").replace("same = Same()", ""),
        kind="serializer",
        attr=":Same",
    )

    assert "missing 1 required positional argument" in broken("serializer")


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [("2", "upgrade ottla, or install an older acme"), ("0", "upgrade acme"), ("'x'", "upgrade acme")],
)
def test_a_plugin_for_other_hook_specs_is_reported(site: Site, spec: str, remedy: str) -> None:
    site.install(GOOD + f"\n    ottla_spec = {spec}")
    said = broken()

    assert f"is made for hook specs {spec}, but this version of ottla supports 1; {remedy}" in said


def test_the_spec_of_an_object_is_that_of_its_module(site: Site) -> None:
    site.install(OBJECT + "\n    ottla_spec = 2", kind="serializer", attr=":same")

    assert "is made for hook specs 2" in broken("serializer")


def test_a_plugin_may_declare_its_spec_version(site: Site) -> None:
    site.install(GOOD + "\n    ottla_spec = 1")

    assert Registry().plugin("partitioner", "first").create({})


def test_a_plugin_without_the_hook_of_its_kind_is_reported(site: Site) -> None:
    site.install("x = 1")

    assert "has no hook for its kind; it must implement ottla_partitioner" in broken()


def test_an_unmarked_hook_is_reported(site: Site) -> None:
    site.install("def ottla_partitioner(config): ...")

    assert "mark ottla_partitioner with @ottla.hookspecs.hookimpl" in broken()


def test_a_hook_with_a_wrong_argument_is_reported(site: Site) -> None:
    site.install(GOOD.replace("ottla_partitioner(config)", "ottla_partitioner(settings)"))

    assert (
        "does not fit the hook specs: ottla_partitioner has a parameter 'settings'; it may have config, context; "
        in broken()
    )


def test_a_hook_with_a_misspelt_argument_is_reported_with_the_right_one(site: Site) -> None:
    site.install(GOOD.replace("ottla_partitioner(config)", "ottla_partitioner(conf, context)"))

    assert "has a parameter 'conf'; did you mean 'config'? it may have config, context; install another" in broken()


def test_an_undeclared_key_that_a_hook_reads_is_reported(site: Site) -> None:
    site.install(GOOD.replace("made.config = config", 'made.config = config["first.bais"]'))
    registry = Registry()

    with pytest.raises(InvalidPluginError) as caught:
        make_alone(registry.plugin("partitioner", "first"), {}, registry=registry)
    assert (
        "ottla_partitioner raised UndeclaredKeyError: 'first.bais' is not declared by ottla_config_keys; did you mean "
        "'first.bias'? (declared: first.bias); install another version of acme" in str(caught.value)
    )


def test_an_undeclared_key_is_missing_like_any_other(site: Site) -> None:
    site.install(GOOD.replace("made.config = config", 'made.config = config.get("nothing", "else"), "none" in config'))
    registry = Registry()

    assert make_alone(registry.plugin("partitioner", "first"), {}, registry=registry).config == ("else", False)


def test_a_misspelt_hook_is_reported_with_the_known_one(site: Site) -> None:
    site.install(GOOD.replace("ottla_config_keys", "ottla_config_kyes"))

    assert "unknown hook 'ottla_config_kyes'; did you mean ottla_config_keys?" in broken()


def test_a_hook_of_an_unknown_kind_is_ignored_with_a_log_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    site.install(GOOD.replace("def ottla_config_keys", "def ottla_flux_capacitor"))

    assert Registry().plugin("partitioner", "first").create({}).partition("t", None, None) == 0
    [line] = [message for message in caplog.messages if "ottla_flux_capacitor" in message]
    assert line.startswith("ottla_flux_capacitor is ignored: this ottla does not know hooks of this name (partitioner")


def test_a_marked_function_that_is_no_hook_is_reported(site: Site) -> None:
    site.install(GOOD.replace("def ottla_config_keys", "def flux_capacitor"))

    assert "unknown hook 'flux_capacitor'" in broken()


class OldPartitioner(Protocol):
    """A generation whose method has another name."""

    def choose(self, topic: str) -> int: ...


class Adapted:
    def __init__(self, old: OldPartitioner) -> None:
        self.old = old

    def partition(self, topic: str, key: bytes | None, view: object) -> int:
        return self.old.choose(topic)


TWO_GENERATIONS = attrs.evolve(
    KINDS["partitioner"], generation=2, former={1: FormerGeneration(protocol=OldPartitioner, adapt=Adapted)}
)
"""A kind that has changed once, and whose former plugins are adapted."""


def of_two_generations(site: Site, source: str) -> Plugin:
    site.install(source)
    [info] = [info for info in Registry().installed("partitioner") if info.name == "first"]
    return Plugin(attrs.evolve(info, kind=TWO_GENERATIONS))


def test_a_plugin_of_a_former_generation_is_adapted(site: Site) -> None:
    plugin = of_two_generations(site, GOOD.replace("def partition(self, topic, key, view)", "def choose(self, topic)"))
    made = plugin.create({})

    assert plugin.generation == 1
    assert isinstance(made, Adapted)
    assert made.partition("t", None, None) == 0


def test_a_plugin_of_the_newest_generation_is_used_unchanged(site: Site) -> None:
    plugin = of_two_generations(site, GOOD + "\n    ottla_spec = 2")

    assert plugin.generation == 2
    assert type(plugin.create({})).__name__ == "First"


def test_an_object_is_checked_by_the_protocol_of_its_generation(site: Site) -> None:
    other = GOOD.replace("def partition(self, topic, key, view)", "def choice(self, topic)")
    with pytest.raises(InvalidPluginError, match="a First, which is not an OldPartitioner: it lacks choose"):
        of_two_generations(site, other).create({})


def test_methods_of_another_generation_are_named(site: Site) -> None:
    with pytest.raises(InvalidPluginError, match=r"of generation 2 .* write `ottla_spec = 2` in ottla_test_"):
        of_two_generations(site, GOOD).create({})


@pytest.mark.parametrize(("spec", "remedy"), [("3", "upgrade ottla, or install an older"), ("0", "upgrade ")])
def test_a_refused_generation_is_reported_with_those_supported(site: Site, spec: str, remedy: str) -> None:
    said = f"is made for hook specs {spec}, but this version of ottla supports 1 and 2; {remedy}"
    with pytest.raises(InvalidPluginError, match=said):
        of_two_generations(site, GOOD + f"\n    ottla_spec = {spec}")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "ottla_partitioner returned nothing"),
        ("First", "returned the class First, not an object"),
        ("object()", "returned an object, which is not a Partitioner: it lacks partition"),
        ("1 / 0", "ottla_partitioner raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_hook_that_returns_a_wrong_type_is_reported(site: Site, returned: str, said: str) -> None:
    site.install(GOOD.replace("return made", f"return {returned}"))
    error = broken()

    assert said in error
    assert "of acme 1.0" in error


def test_a_method_that_is_none_counts_as_missing(site: Site) -> None:
    site.install(GOOD.replace("return made", "made.partition = None; return made"))

    assert "it lacks partition" in broken()


def test_an_object_whose_attributes_raise_is_reported(site: Site) -> None:
    site.install(
        GOOD.replace(
            "def partition(self, topic, key, view):", "@property\n        def partition(self):\n            1 / 0"
        )
    )

    assert (
        "reading the attributes of what ottla_partitioner returned raised ZeroDivisionError: division by zero"
        in broken()
    )


def test_every_missing_attribute_is_named_including_data(site: Site) -> None:
    source = """
        from ottla.hookspecs import hookimpl
        @hookimpl
        def ottla_compressor(config): return object()
    """
    site.install(source, kind="compressor")

    assert "which is not a Compressor: it lacks codec_id, compress, decompress" in broken("compressor")


@pytest.mark.parametrize("returned", ["5", "['first.bias']", "{1: 2}.keys()"])
def test_invalid_config_keys_are_reported(site: Site, returned: str) -> None:
    site.install(GOOD.replace("return [ConfigKey", f"return {returned} or [ConfigKey"))

    with pytest.raises(InvalidPluginError, match="ottla_config_keys must return a sequence of ConfigKey"):
        Registry().plugin("partitioner", "first").config_keys()


@pytest.mark.parametrize(
    ("key", "reported"),
    [
        ("name=5, type=int", "the name of a key is 5; write one such as acme.port"),
        ('name="", type=int', "the name of a key is ''"),
        ('name="first.bias ", type=int', "the name of a key is 'first.bias '"),
        ('name="first.bias", type="int"', "the type of first.bias is 'int', which cannot be called"),
    ],
)
def test_a_key_that_cannot_be_set_is_reported(site: Site, key: str, reported: str) -> None:
    site.install(GOOD.replace('name="first.bias", type=int', key))

    with pytest.raises(InvalidPluginError) as caught:
        Registry().plugin("partitioner", "first").config_keys()
    assert reported in str(caught.value)


def test_a_key_that_one_plugin_declares_twice_is_reported(site: Site) -> None:
    site.install(GOOD.replace("return [", "return 2 * ["))

    with pytest.raises(InvalidPluginError, match=r"first\.bias is declared 2 times"):
        Registry().plugin("partitioner", "first").config_keys()


@pytest.mark.parametrize(
    ("error", "raised"),
    [("PluginNotFoundError('pip install it')", PluginNotFoundError), ("ConfigError(['no'])", ConfigError)],
)
def test_an_ottla_error_of_a_hook_is_raised_unchanged(site: Site, error: str, raised: type[Exception]) -> None:
    site.install(f"from ottla.errors import *\n{textwrap.dedent(GOOD)}".replace("made = First()", f"raise {error}"))
    plugin = Registry().plugin("partitioner", "first")

    with pytest.raises(raised) as caught:
        plugin.create({})
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("entry_points", ["no section", "[ottla.partitioners]\nfirst\n", "[ottla.partitioners"])
def test_a_package_with_damaged_entry_points_stops_no_other(site: Site, entry_points: str) -> None:
    site.install_metadata("damaged", entry_points)
    site.install(GOOD)

    assert Registry().plugin("partitioner", "first").create({})


def test_a_package_without_metadata_stops_no_other(site: Site) -> None:
    site.install_metadata("nameless", "[ottla.partitioners]\nghost = ghost\n", metadata=None)
    site.install(GOOD)
    registry = Registry()

    assert registry.plugin("partitioner", "first").create({})
    with pytest.raises(InvalidPluginError, match="of an unnamed distribution"):
        registry.plugin("partitioner", "ghost")


def test_a_package_with_unreadable_metadata_stops_no_other(site: Site, tmp_path: pathlib.Path) -> None:
    site.install_metadata("ghostly", "[ottla.partitioners]\nghost = ghost\n")
    (tmp_path / "ghostly-1.0.dist-info" / "METADATA").write_bytes(b"Name: \xff\xff")
    site.install(GOOD)

    assert Registry().plugin("partitioner", "first").create({})


def test_a_broken_package_of_the_same_kind_stops_no_other(site: Site) -> None:
    site.install("1 / 0", dist="other", name="second")
    site.install(GOOD)

    assert Registry().plugin("partitioner", "first").create({})


ENCODER = """
    from ottla.hookspecs import hookimpl

    class Encoder:
        priority = {priority}
        record_cost = 0

        def columns(self, kind, limit):
            return None

    @hookimpl
    def ottla_encoder(config):
        {before}
        return Encoder()
"""


def released_encoders(site: Site) -> list[int]:
    """The priorities of the encoders that are used unasked."""
    registry = Registry([entry for entry in announced() if entry.name != "native" or site.has(entry)])
    made = registry.create_encoders((plugin, {}) for plugin in registry.encoders())
    return [encoder.priority for encoder in made]


def test_the_encoder_of_the_same_release_takes_over_unasked(site: Site) -> None:
    site.install(ENCODER.format(priority=9_000, before=""), dist="Ottla_Accel", name="native", kind="encoder")
    site.version("Ottla_Accel", __version__)

    assert released_encoders(site) == [9_000, 0]


def test_an_encoder_of_another_release_is_left_out_with_the_remedy(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    module = site.install(ENCODER.format(priority=9_000, before=""), dist="ottla-accel", name="native", kind="encoder")
    site.version("ottla-accel", "0.0.7")

    assert released_encoders(site) == [0]
    assert f"does not belong to this version of ottla; try: pip install ottla-accel=={__version__}" in caplog.text
    assert module not in sys.modules


def test_the_encoder_of_a_third_party_is_used_only_where_it_is_named(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    module = site.install(ENCODER.format(priority=9_000, before=""), name="fast", kind="encoder")

    assert released_encoders(site) == [0]
    assert (module in sys.modules, caplog.text) == (False, "")
    assert Registry().plugin("encoder", "fast").create({}).priority == 9_000


@pytest.mark.parametrize(
    "before", ["1 / 0", "from ottla.errors import PluginNotFoundError; raise PluginNotFoundError('x')"]
)
def test_a_released_encoder_that_is_unusable_is_left_out_with_a_warning(
    site: Site, before: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.install(ENCODER.format(priority=9_000, before=before), dist="ottla-accel", name="native", kind="encoder")
    site.version("ottla-accel", __version__)

    assert released_encoders(site) == [0]
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "'native' of ottla-accel" in record.getMessage()


def test_without_any_encoder_there_is_an_error() -> None:
    registry = Registry([])

    with pytest.raises(PluginNotFoundError, match="no encoder is named 'python'"):
        registry.create_encoders((plugin, {}) for plugin in registry.encoders())


def test_a_transport_with_the_name_of_a_built_in_one_gets_an_inner_one(site: Site) -> None:
    site.install(
        """
        from ottla.hookspecs import hookimpl

        class Tunnel:
            def targets(self, host, port): ...
            def open(self, sock, host, port): ...

        @hookimpl
        def ottla_transport(inner):
            made = Tunnel()
            made.inner = inner
            return made
        """,
        name="plaintext",
        kind="transport",
    )
    registry = Registry()
    made = make_alone(registry.plugin("transport", "acme:plaintext"), {}, registry=registry)

    assert type(made.inner).__name__ == "PlaintextTransport"


def test_keys_of_built_in_plugins_are_known_without_choosing_them() -> None:
    assert "partitioner.ignore.keys" in Registry().built_in_keys()


def test_listing_built_in_keys_imports_no_other_plugin(site: Site) -> None:
    module = site.install(GOOD)

    assert "first.bias" not in Registry().built_in_keys()
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("dist", "name", "kind", "key"),
    [
        ("acme", "first", "partitioner", "first.bias"),
        ("acme", "hash_ring", "partitioner", "hash.ring.size"),
        ("acme", "hash_ring", "partitioner", "hash_ring.size"),
        ("acme", "first", "reporter", "acme.url"),
        ("Acme_Tools", "first", "reporter", "acme.tools.url"),
        ("ottla-transport-acme", "gateway", "transport", "acme.port"),
        ("acme-ottla", "gateway", "transport", "acme.port"),
        ("acme", "TOKENS", "authenticator", "sasl.tokens.url"),
        ("acme", "isal", "compressor", "compression.isal.level"),
    ],
)
def test_a_key_points_to_a_plugin_by_its_first_words(site: Site, dist: str, name: str, kind: str, key: str) -> None:
    module = site.install("1 / 0", dist=dist, name=name, kind=kind)

    assert f"{kind} {name!r} of {dist}" in str(Registry().likely_owner(key, known=["linger.ms", "sasl.mechanism"]))
    assert module not in sys.modules


@pytest.mark.parametrize("key", ["batch.sise", "firstbias", "json.indent", "xyzzy"])
def test_a_key_with_the_first_words_of_a_known_one_is_no_others(site: Site, key: str) -> None:
    site.install(GOOD)
    site.install(GOOD, dist="batch", name="batch")

    assert Registry().likely_owner(key, known=["batch.size"]) is None


def test_a_key_is_of_the_plugin_with_the_most_words_in_common(site: Site) -> None:
    site.install_metadata(
        "ottla-acme",
        "[ottla.authenticators]\nACME-IN = x\n[ottla.partitioners]\nacme-ring = y\n[ottla.reporters]\nacme-log = z\n",
    )
    registry = Registry()

    assert "partitioner 'acme-ring'" in str(registry.likely_owner("acme.ring.size", known=["acme.log.file"]))
    assert registry.likely_owner("acme.size", known=["acme.log.file"]) is None
    assert registry.likely_owner("acme.ring.siez", known=["acme.ring.size"]) is None


def test_the_keys_of_a_loaded_plugin_are_known_exactly(site: Site) -> None:
    site.install(GOOD, dist="other")
    registry = Registry()
    registry.plugin("partitioner", "first")

    assert registry.likely_owner("first.bais", known=[]) is None


def test_the_table_of_kinds_is_complete() -> None:
    """CONTRIBUTING.md lists the places of a new kind."""
    assert sorted(group.removeprefix("ottla.") for group in GROUPS.values()) == [
        "authenticators",
        "compressors",
        "config_providers",
        "encoders",
        "interceptors",
        "partitioners",
        "reporters",
        "serializers",
        "transports",
    ]
    assert all(name == name.lower() for kind in KINDS.values() for name in kind.install)


def test_every_kind_has_a_hook_spec() -> None:
    from ottla import hookspecs

    assert all(hasattr(hookspecs, kind.hook) for kind in KINDS.values())


@pytest.mark.parametrize("name", ["bytes", "json", "string"])
@pytest.mark.parametrize("is_key", [True, False])
def test_built_in_serializers_are_registered_as_entry_points(name: str, is_key: bool) -> None:
    registry = Registry([EntryPoint(name, f"ottla.plugins.serializers.{name}", "ottla.serializers")])

    assert isinstance(registry.plugin("serializer", name).create({}, is_key=is_key), Serializer)


def test_config_keys_are_requested_once(site: Site) -> None:
    site.install(GOOD)
    plugin = Registry().plugin("partitioner", "first")
    keys = plugin.config_keys()

    assert plugin.config_keys() is keys
    assert isinstance(keys[0], ConfigKey)
