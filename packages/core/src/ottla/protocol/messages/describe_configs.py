"""DescribeConfigs: the settings of topics, brokers and other resources, and their sources.

Version 0 only has a flag for defaults. From 1 on there are sources and synonyms (KIP-226), from 3 on types and
documentation (KIP-569). A broker's own settings must be requested from that broker.
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Bool, Ignorable, In, Int8, Int16, Int32, String, Struct

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsResource(Struct):
    """A resource by type and name; None as keys asks for all of its settings, `[]` for none."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsRequest(Struct):
    """Synonyms are the possible sources of a setting, the effective one first."""

    resources: list[DescribeConfigsResource] = attrs.Factory(list)
    include_synonyms: Annotated[Bool, In(1)] = False
    include_documentation: Annotated[Bool, In(3)] = False


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsSynonym(Struct):
    """A possible source of a setting, and its value there."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsResourceResult(Struct):
    """One setting. The value of a sensitive one is None.

    `config_source`: 1 topic, 2 broker, 3 all brokers, 4 the broker's file, 5 default, 6 logger, 7 client metrics,
    8 group. `config_type`: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
    """

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    is_default: Annotated[Bool, In(0, 0)] = False
    config_source: Annotated[Int8, In(1), Ignorable()] = -1
    is_sensitive: Bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], In(1), Ignorable()] = attrs.Factory(list)
    config_type: Annotated[Int8, In(3), Ignorable()] = 0
    documentation: Annotated[String | None, In(3), Ignorable()] = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsResult(Struct):
    """The settings of one resource, or the error."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class DescribeConfigsResponse(Struct):
    """The results by resource."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = attrs.Factory(list)


DESCRIBE_CONFIGS = Message(
    name="DescribeConfigs",
    key=32,
    min_version=0,
    max_version=4,
    flexible_from=4,
    request_type=DescribeConfigsRequest,
    response_type=DescribeConfigsResponse,
)
