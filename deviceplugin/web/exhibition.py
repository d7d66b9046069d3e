"""What is shown, ready as bytes: rendered once per sample or change, sent by any number of requests."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from deviceplugin.config.document import Metrics
from deviceplugin.web.status import document
from deviceplugin.web.view import Plugin, View

if TYPE_CHECKING:
    from deviceplugin.web.metrics import Writer

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LEVEL = 1
"""The text repeats itself so much that the fastest level shrinks it to a fiftieth."""


Parts = tuple[bytes, ...]


class Body:
    """Bytes that stay, plain and packed, to which each request adds a few of its own at the end."""

    __slots__ = ("_crc", "_packed", "_plain")

    def __init__(self, plain: bytes) -> None:
        self._plain = plain
        self._crc = zlib.crc32(plain)
        packer = _packer()
        # A full flush ends on a byte and refers to nothing before it, so any tail can follow.
        self._packed = _GZIP_HEAD + packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)

    def with_tail(self, tail: bytes, *, packed: bool) -> Parts:
        """The whole, to be sent piece by piece; packed it is one gzip member, and only the tail is compressed now."""
        if not packed:
            return self._plain, tail
        packer = _packer()
        end = packer.compress(tail) + packer.flush(zlib.Z_FINISH)
        length = (len(self._plain) + len(tail)) & 0xFFFFFFFF
        return self._packed, end, zlib.crc32(tail, self._crc).to_bytes(4, "little"), length.to_bytes(4, "little")


def _packer() -> Any:
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)


class Shown(Struct, frozen=True):
    """One view and everything made from it."""

    view: View
    metrics: Body
    status: Body


class Exhibition:
    """Holds what is shown now. `update` is called by one thread, the rest by any."""

    def __init__(
        self,
        call_ages: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Shows an empty view, and no metrics yet.

        Args:
            call_ages: Seconds of the present driver call by thread; asked at each scrape, on the scrape's thread.
            clock: Unix time.
        """
        self._call_ages = call_ages
        self._clock = clock
        self._writer: Writer | None = None
        self._shown = self._make(View(plugin=Plugin(settings=Metrics(address=""))))

    def update(self, view: View) -> None:
        """Renders a view, off the event loop, and shows it from then on."""
        self._shown = self._make(view)

    @property
    def view(self) -> View:
        """The view shown now."""
        return self._shown.view

    def metrics(self, *, packed: bool = False) -> Parts:
        """The text of a scrape."""
        from deviceplugin.web.metrics import Moment, live_text

        shown = self._shown
        tail = live_text(Moment(shown.view, self._clock(), self._call_ages()))
        return shown.metrics.with_tail(tail, packed=packed)

    def status(self, *, packed: bool = False) -> Parts:
        """The status document as JSON."""
        return self._shown.status.with_tail(b',"now":%.3f}' % self._clock(), packed=packed)

    def status_document(self) -> dict[str, Any]:
        """The status document for the local socket."""
        return dict(json.loads(b"".join(self.status())))

    def _make(self, view: View) -> Shown:
        status = msgspec.json.encode(document(view))
        return Shown(view, Body(self._text(view)), Body(status[:-1]))

    def _text(self, view: View) -> bytes:
        """Of the metrics; where no port is open nobody reads it, and what writes it is not loaded."""
        if not view.plugin.settings.address:
            return b""
        from deviceplugin.web.metrics import Writer, still_text

        self._writer = self._writer or Writer()
        return still_text(view, self._writer)
