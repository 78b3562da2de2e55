"""The settings as keywords, for editors and type checkers. Written by `python tools/keywords.py`: do not edit.

They are the keys of the core and of the plugins that come with Ottla, with `_` for `.`. A program gives the keys of
other plugins in the mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from ottla.config.plugin_choice import PartitionFunction, PluginOf, PluginsOf
from ottla.interfaces import (
    Compressor,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    RecordEncoder,
    Serializer,
    Transport,
)


class ProducerKeywords(TypedDict, total=False):
    """Keyword arguments of `Producer`: settings with `_` for `.`; None means the default."""

    bootstrap_servers: str | Sequence[str] | None
    client_dns_lookup: str | None
    client_id: str | None
    security_protocol: str | None
    sasl_mechanism: PluginOf[Mechanism] | None
    connection_via: PluginsOf[Transport] | None
    connections_max_idle_ms: int | str | None
    send_buffer_bytes: int | str | None
    receive_buffer_bytes: int | str | None
    receive_message_max_bytes: int | str | None
    reconnect_backoff_ms: int | str | None
    reconnect_backoff_max_ms: int | str | None
    socket_connection_setup_timeout_ms: int | str | None
    socket_connection_setup_timeout_max_ms: int | str | None
    request_timeout_ms: int | str | None
    metadata_max_age_ms: int | str | None
    metadata_max_idle_ms: int | str | None
    metadata_recovery_strategy: str | None
    metadata_recovery_rebootstrap_trigger_ms: int | str | None
    batch_size: int | str | None
    linger_ms: int | str | None
    batch_growth_enable: bool | str | None
    buffer_memory: int | str | None
    max_request_size: int | str | None
    max_block_ms: int | str | None
    compression_type: PluginOf[Compressor] | None
    compression_gzip_level: int | str | None
    compression_lz4_level: int | str | None
    compression_zstd_level: int | str | None
    record_encoder: PluginOf[RecordEncoder] | None
    acks: int | str | None
    retries: int | str | None
    delivery_timeout_ms: int | str | None
    retry_backoff_ms: int | str | None
    retry_backoff_max_ms: int | str | None
    max_in_flight_requests_per_connection: int | str | None
    io_handoff_enable: bool | str | None
    undelivered_exit_code: int | str | None
    enable_idempotence: bool | str | None
    transactional_id: str | None
    transaction_timeout_ms: int | str | None
    transaction_two_phase_commit_enable: bool | str | None
    partitioner_class: PluginOf[Partitioner] | PartitionFunction | None
    partitioner_ignore_keys: bool | str | None
    partitioner_adaptive_partitioning_enable: bool | str | None
    partitioner_availability_timeout_ms: int | str | None
    partitioner_rack_aware: bool | str | None
    client_rack: str | None
    key_serializer: PluginOf[Serializer] | Callable[[Any], bytes | None] | None
    value_serializer: PluginOf[Serializer] | Callable[[Any], bytes | None] | None
    metric_reporters: PluginsOf[MetricsReporter] | None
    metrics_num_samples: int | str | None
    metrics_sample_window_ms: int | str | None
    enable_metrics_push: bool | str | None
    slow_record_threshold_ms: int | str | None
    interceptor_classes: PluginsOf[Interceptor] | None
    config_providers: str | Sequence[str] | None
    https_ca_location: Any
    https_ca_pem: Any
    https_certificate_location: Any
    https_certificate_pem: Any
    https_key_location: Any
    https_key_password: Any
    https_key_pem: Any
    sasl_allow_cleartext_credentials: Any
    sasl_client_callback_handler_class: Any
    sasl_credentials_provider: Any
    sasl_jaas_config: Any
    sasl_kerberos_keytab: Any
    sasl_kerberos_principal: Any
    sasl_kerberos_service_name: Any
    sasl_login_callback_handler_class: Any
    sasl_login_class: Any
    sasl_login_connect_timeout_ms: Any
    sasl_login_read_timeout_ms: Any
    sasl_login_refresh_buffer_seconds: Any
    sasl_login_refresh_min_period_seconds: Any
    sasl_login_refresh_window_factor: Any
    sasl_login_refresh_window_jitter: Any
    sasl_login_retry_backoff_max_ms: Any
    sasl_login_retry_backoff_ms: Any
    sasl_oauthbearer_assertion_algorithm: Any
    sasl_oauthbearer_assertion_claim_aud: Any
    sasl_oauthbearer_assertion_claim_exp_seconds: Any
    sasl_oauthbearer_assertion_claim_iss: Any
    sasl_oauthbearer_assertion_claim_jti_include: Any
    sasl_oauthbearer_assertion_claim_nbf_seconds: Any
    sasl_oauthbearer_assertion_claim_sub: Any
    sasl_oauthbearer_assertion_file: Any
    sasl_oauthbearer_assertion_private_key_file: Any
    sasl_oauthbearer_assertion_private_key_passphrase: Any
    sasl_oauthbearer_assertion_private_key_pem: Any
    sasl_oauthbearer_assertion_template_file: Any
    sasl_oauthbearer_client_credentials_client_id: Any
    sasl_oauthbearer_client_credentials_client_secret: Any
    sasl_oauthbearer_extensions: Any
    sasl_oauthbearer_header_urlencode: Any
    sasl_oauthbearer_jwt_retriever_class: Any
    sasl_oauthbearer_scope: Any
    sasl_oauthbearer_scope_claim_name: Any
    sasl_oauthbearer_sub_claim_name: Any
    sasl_oauthbearer_token_endpoint_url: Any
    sasl_oauthbearer_token_provider: Any
    sasl_password: Any
    sasl_scram_tokenauth: Any
    sasl_username: Any
    opentelemetry_histograms: Any
    opentelemetry_message_key: Any
    prometheus_listen: Any
    prometheus_max_topics: Any
    prometheus_registry: Any
    auto_register_schemas: Any
    avro_ignore_unknown_fields: Any
    basic_auth_credentials_source: Any
    basic_auth_user_info: Any
    bearer_auth_cache_expiry_buffer_seconds: Any
    bearer_auth_client_id: Any
    bearer_auth_client_secret: Any
    bearer_auth_credentials_source: Any
    bearer_auth_identity_pool_id: Any
    bearer_auth_issuer_endpoint_url: Any
    bearer_auth_logical_cluster: Any
    bearer_auth_scope: Any
    bearer_auth_token: Any
    key_schema: Any
    key_schema_id_serializer: Any
    key_schema_references: Any
    normalize_schemas: Any
    schema_registry_ssl_ca_location: Any
    schema_registry_ssl_certificate_location: Any
    schema_registry_ssl_key_location: Any
    schema_registry_ssl_key_password: Any
    schema_registry_url: Any
    subject_name_strategy: Any
    use_latest_version: Any
    value_schema: Any
    value_schema_id_serializer: Any
    value_schema_references: Any
    ssl_cipher_suites: Any
    ssl_crl_location: Any
    ssl_enabled_protocols: Any
    ssl_endpoint_identification_algorithm: Any
    ssl_engine_factory_class: Any
    ssl_key_password: Any
    ssl_keymanager_algorithm: Any
    ssl_keystore_certificate_chain: Any
    ssl_keystore_key: Any
    ssl_keystore_location: Any
    ssl_keystore_password: Any
    ssl_keystore_type: Any
    ssl_protocol: Any
    ssl_provider: Any
    ssl_secure_random_implementation: Any
    ssl_trustmanager_algorithm: Any
    ssl_truststore_certificates: Any
    ssl_truststore_location: Any
    ssl_truststore_password: Any
    ssl_truststore_type: Any
