"""Protobuf: messages of generated classes, columns, and the plugin."""
