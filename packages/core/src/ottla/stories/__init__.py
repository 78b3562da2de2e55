"""The story of a record: what happened to its batch and when, and what most of the time went to."""

from ottla.stories.causes import Cause
from ottla.stories.record_story import RecordStory, StoryEvent
from ottla.stories.tries import Try
from ottla.stories.waits import WaitKind

__all__ = ["Cause", "RecordStory", "StoryEvent", "Try", "WaitKind"]
