"""The story of a record: what happened to its batch and when, and what most of the time went to."""

from ottla.results.stories.causes import Cause
from ottla.results.stories.record_story import RecordStory, StoryEvent
from ottla.results.stories.tries import Try
from ottla.results.stories.waits import WaitKind

__all__ = ["Cause", "RecordStory", "StoryEvent", "Try", "WaitKind"]
