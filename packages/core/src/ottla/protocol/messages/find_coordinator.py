"""FindCoordinator: the coordinator of a group, a transactional id or a share group.

Up to version 3 request and response have one key; from 4 on a list of keys (KIP-699). Version 6 adds share groups
(KIP-932). Error 15 COORDINATOR_NOT_AVAILABLE is usual while the internal topic is being created.
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Ignorable, In, Int8, Int16, Int32, String, Struct

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2


@attrs.define(kw_only=True, eq=False, repr=False)
class FindCoordinatorRequest(Struct):
    """`key_type` is GROUP, TRANSACTION or SHARE; a SHARE key is `group:topic id:partition`.

    Version 0 only supports groups.
    """

    key: Annotated[String, In(0, 3)] = ""
    key_type: Annotated[Int8, In(1)] = GROUP
    coordinator_keys: Annotated[list[String], In(4)] = attrs.Factory(list)


@attrs.define(kw_only=True, eq=False, repr=False)
class Coordinator(Struct):
    """The coordinator of one key, or an error."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class FindCoordinatorResponse(Struct):
    """Up to version 3 the one coordinator's fields, from 4 on `coordinators`."""

    throttle_time_ms: Annotated[Int32, In(1), Ignorable()] = 0
    error_code: Annotated[Int16, In(0, 3)] = 0
    error_message: Annotated[String | None, In(1, 3), Ignorable()] = ""
    node_id: Annotated[Int32, In(0, 3)] = 0
    host: Annotated[String, In(0, 3)] = ""
    port: Annotated[Int32, In(0, 3)] = 0
    coordinators: Annotated[list[Coordinator], In(4)] = attrs.Factory(list)


FIND_COORDINATOR = Message(
    name="FindCoordinator",
    key=10,
    min_version=0,
    max_version=6,
    flexible_from=3,
    request_type=FindCoordinatorRequest,
    response_type=FindCoordinatorResponse,
)
