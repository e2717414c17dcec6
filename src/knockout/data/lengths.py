"""The lengths of a split's texts as one short line of text, so that they can be kept beside results."""

import base64
import struct
import zlib
from collections.abc import Sequence

from knockout.tabular import TEXTS


def pack_lengths(lengths: Sequence[int]) -> str:
    """The lengths as Base64 of compressed 32-bit integers, about one byte for each."""
    return base64.b64encode(zlib.compress(struct.pack(f"<{len(lengths)}I", *lengths), 9)).decode()


def unpack_lengths(text: str) -> tuple[int, ...]:
    """The lengths that `pack_lengths` was given. Raises `ValueError` for any other text."""
    try:
        opened = zlib.decompressobj()
        content = opened.decompress(base64.b64decode(text, validate=True), 4 * TEXTS.rows)
        if not opened.eof or opened.unused_data:
            raise ValueError("cut off, or too long")
        return struct.unpack(f"<{len(content) // 4}I", content)
    except (ValueError, zlib.error, struct.error) as error:
        raise ValueError(f"no packed lengths ({error})") from error
