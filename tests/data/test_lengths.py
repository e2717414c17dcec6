"""Lengths as one line of text: whole, or refused."""

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.data.lengths import pack_lengths, unpack_lengths


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_they_come_back_as_they_were(lengths: list[int]) -> None:
    assert list(unpack_lengths(pack_lengths(lengths))) == lengths


def test_the_text_can_be_read_without_knockout() -> None:
    text = pack_lengths([3, 70_000])
    assert struct.unpack("<2I", zlib.decompress(base64.b64decode(text))) == (3, 70_000)


@pytest.mark.parametrize(
    "text",
    [
        "no base64!",
        base64.b64encode(b"not compressed").decode(),
        base64.b64encode(zlib.compress(b"abc")).decode(),
        base64.b64encode(zlib.compress(b"abcd") + b"more").decode(),
        pack_lengths(range(1000))[:-8],
        base64.b64encode(zlib.compress(bytes(30_000_000))).decode(),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no packed lengths"):
        unpack_lengths(text)
