"""Client telemetry (KIP-714): the producer's metrics for brokers that ask for them.

`telemetry_sender` has the requests and their order, `payload` the metrics of a push, `otlp` their encoding.
"""
