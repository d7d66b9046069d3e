"""A strict pretend Kubernetes API server: nodes, pods, events, NodeFeature objects and custom faults, over real HTTP.

It refuses what the real one refuses (rights, media types, unknown fields of an object's identity, labels that are none,
events in the wrong namespace, applies without a manager), and misbehaves on request: 403, 410, 429, 500, silence.
"""

from tests.fake_api.books import Books
from tests.fake_api.server import FakeApi

__all__ = ["Books", "FakeApi"]
