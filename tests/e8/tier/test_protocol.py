"""The frames: whatever the cuts, the same frames come out; what is none is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8.tier.protocol import HEADER, MAX_PAYLOAD_BYTES, Decoder, Frame, FrameError, Kind, message

frames = st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=300))


@given(st.lists(frames, max_size=12), st.lists(st.integers(1, 50), max_size=60))
def test_every_cut_gives_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame.encode() for frame in sent)
    decoder, found, place = Decoder(), [], 0
    for cut in [*cuts, len(data) + 1]:
        found += decoder.feed(data[place : place + cut])
        place += cut
    found += decoder.feed(data[place:])
    assert found == sent


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_a_refusal(data: bytes) -> None:
    try:
        found = list(Decoder().feed(data))
    except FrameError:
        return
    assert data.startswith(b"".join(frame.encode() for frame in found))


@pytest.mark.parametrize(
    "header", [HEADER.pack(0, 0, 1), HEADER.pack(0, 99, 1), HEADER.pack(MAX_PAYLOAD_BYTES + 1, 3, 1)]
)
def test_an_unknown_kind_and_a_payload_over_the_limit_are_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        list(Decoder().feed(header))


def test_frames_before_the_bad_one_are_not_lost() -> None:
    decoder, found = Decoder(), []
    with pytest.raises(FrameError):
        for frame in decoder.feed(message(Kind.WELCOME, 0) + HEADER.pack(0, 99, 1)):
            found.append(frame)  # noqa: PERF402 - the list has to hold what came before the error
    assert [frame.kind for frame in found] == [Kind.WELCOME]


def test_a_payload_over_the_limit_is_not_sent() -> None:
    with pytest.raises(FrameError, match="at most 1048576"):
        Frame(Kind.OUTPUT, 1, bytes(MAX_PAYLOAD_BYTES + 1)).encode()


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b"[" * 100_000])
def test_a_document_that_is_no_json_object_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError):
        Frame(Kind.EXEC, 1, payload).document()
