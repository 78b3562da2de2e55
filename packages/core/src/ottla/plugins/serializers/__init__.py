"""The serializers that come with the core, offered through the same entry points as anybody else's."""
