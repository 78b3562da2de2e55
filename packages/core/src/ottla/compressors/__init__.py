"""The built-in codecs. Each is a plugin of its own; its library is imported only when it is chosen."""
