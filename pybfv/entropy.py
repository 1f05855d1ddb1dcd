"""Randomness of the operating system: the only source of every seed, key, salt and id.

It fails closed: no bytes are returned unless the system vouches for them, and a generator that visibly does
not work (all bytes equal, or the same bytes twice) is refused, too. No other generator ever takes its place.
"""

from __future__ import annotations

import hashlib
import os
import threading

from pybfv.errors import InternalError

LEAST_CHECKED = 16
"""From so many bytes on equal bytes and repetitions are no accident (2^-120)."""

_REFUSAL = "the operating system's random generator {}; nothing was made: mend it and try again"
_lock = threading.Lock()
_last = b""  # a hash of the last bytes' beginning: they themselves are not kept


def fresh_bytes(size: int) -> bytes:
    """``size`` bytes of the operating system's generator, which waits until it is seeded.

    InternalError when it fails, gives fewer bytes, or bytes that are plainly not random.
    """
    global _last
    try:
        data = os.urandom(size)
    except (OSError, NotImplementedError) as exc:  # the latter: there is no generator
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "is missing"
        raise InternalError(_REFUSAL.format(f"failed ({why})")) from None
    if len(data) != size:
        raise InternalError(_REFUSAL.format("returned too few bytes"))
    if size >= LEAST_CHECKED:
        digest = hashlib.sha256(data[:LEAST_CHECKED]).digest()
        with _lock:
            repeated, _last = digest == _last, digest
        if repeated or data == data[:1] * size:
            raise InternalError(_REFUSAL.format("repeats itself"))
    return data
