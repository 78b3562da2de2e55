"""The core's serializers, registered through the same entry points as third-party ones."""
