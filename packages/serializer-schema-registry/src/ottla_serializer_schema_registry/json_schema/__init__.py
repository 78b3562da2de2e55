"""JSON Schema: schemas, data, columns, and the plugin."""
