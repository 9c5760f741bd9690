"""What one task of a read is told: the bytes of its fragments, and which of their rows it reads.

Fragments of a table are much alike, so a message is compressed. Knows nothing of scans.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment

_CODEC = "zstd"
_SIZE_BYTES = 8


@dataclass(frozen=True)
class Portion:
    """A part of a table."""

    fragments: Sequence[bytes]
    """As they stand in the manifest."""
    spans: Mapping[FragmentId, tuple[int, int]] = field(default_factory=dict)
    """Of these only some physical rows: see ``engine.scan.ScanRequest``."""

    def encode(self) -> bytes:
        """A message for a task."""
        plain = pickle.dumps((list(self.fragments), dict(self.spans)))
        size = len(plain).to_bytes(_SIZE_BYTES, "little")
        return size + bytes(pa.compress(plain, _CODEC, asbytes=True))

    @classmethod
    def decode(cls, message: bytes) -> Portion:
        """The portion that a message tells of; only of messages that ``encode`` made."""
        size = int.from_bytes(message[:_SIZE_BYTES], "little")
        plain = pa.decompress(message[_SIZE_BYTES:], size, _CODEC, asbytes=True)
        return cls(*pickle.loads(plain))

    def decoded(self, name: str) -> list[Fragment]:
        """The fragments; raises FormatError naming the manifest."""
        return [Fragment(decode_fragment(each, name)) for each in self.fragments]
