"""The built-in codecs. Each module is a plugin; its library is imported when the codec is chosen."""
