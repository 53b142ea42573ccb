"""A Linux timerfd with absolute CLOCK_MONOTONIC deadlines in nanoseconds.

asyncio's and uvloop's own timers have steps of 1 ms, which at 1,000 rps is a whole interval.
"""

from __future__ import annotations

import os
import sys
import time

NS_PER_S = 1_000_000_000

if sys.version_info >= (3, 13):

    class Timer:
        """Becomes readable on ``fd`` at the armed moment, once."""

        def __init__(self) -> None:
            self.fd = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

        def arm(self, at_ns: int) -> None:
            """Fire at this CLOCK_MONOTONIC moment, at once when it has passed. Replaces an earlier deadline."""
            os.timerfd_settime_ns(self.fd, flags=os.TFD_TIMER_ABSTIME, initial=max(1, at_ns))

        def close(self) -> None:
            """Free the descriptor."""
            os.close(self.fd)

else:
    import ctypes

    _TFD_TIMER_ABSTIME = 1  # linux/timerfd.h
    _libc = ctypes.CDLL(None, use_errno=True)

    class _Itimerspec(ctypes.Structure):
        _fields_ = (
            ("interval_s", ctypes.c_long),
            ("interval_ns", ctypes.c_long),
            ("value_s", ctypes.c_long),
            ("value_ns", ctypes.c_long),
        )

    class Timer:
        """Becomes readable on ``fd`` at the armed moment, once."""

        def __init__(self) -> None:
            # TFD_NONBLOCK and TFD_CLOEXEC are defined as O_NONBLOCK and O_CLOEXEC.
            self.fd = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            if self.fd < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create failed")
            self._spec = _Itimerspec(0, 0, 0, 0)
            self._spec_pointer = ctypes.byref(self._spec)

        def arm(self, at_ns: int) -> None:
            """Fire at this CLOCK_MONOTONIC moment, at once when it has passed. Replaces an earlier deadline."""
            self._spec.value_s, self._spec.value_ns = divmod(max(1, at_ns), NS_PER_S)  # 0 would disarm
            if _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, self._spec_pointer, None) != 0:
                raise OSError(ctypes.get_errno(), "timerfd_settime failed")

        def close(self) -> None:
            """Free the descriptor."""
            os.close(self.fd)
