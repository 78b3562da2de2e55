"""Avro: schemas, data, columns, and the plugin."""
