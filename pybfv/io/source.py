"""Inputs that are only ever read forward: regular files, and standard input as ``-``.

Nothing is allocated on the word of a file: a length is compared with what a regular file still has,
and what comes through a pipe is taken in chunks, so that memory grows only with bytes that arrived.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from types import TracebackType
from typing import BinaryIO, Self

from pybfv.errors import DataError, MissingInputError

CHUNK = 1 << 18
"""Bytes taken at a time from an input whose size is unknown."""

PathLike = str | os.PathLike[str]


class KeyPermissionWarning(UserWarning):
    """A secret key that others may use."""


def shown(path: PathLike) -> str:
    """A path for a one-line message: characters that don't print are escaped."""
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Source:
    """One open input.

    ``origin``: its name for messages. ``left``: bytes not yet read, None where the size is unknown
    (pipes). ``mode``: permission bits of a regular file, else None. ``via_symlink``: the path's last
    part was a symbolic link.
    """

    def __init__(self, stream: BinaryIO, origin: str, size: int | None) -> None:
        self.origin = origin
        self.left = size
        self.mode: int | None = None
        self.via_symlink = False
        self._stream = stream
        self._owned = False

    def fill(self, view: memoryview, what: str) -> None:
        """Reads exactly len(view) bytes into a writable byte view; DataError when there are fewer."""
        size = len(view)
        if self.left is not None and size > self.left:
            raise self._short(what)
        done = 0
        while done < size:
            try:
                got = self._stream.readinto(view[done:])  # type: ignore[attr-defined]
            except OSError as exc:
                raise MissingInputError(f"{self.origin} can't be read: {exc.strerror or exc}") from None
            if not got:
                raise self._short(what)
            done += got
        if self.left is not None:
            self.left -= size

    def read(self, size: int, what: str) -> bytearray:
        """The next ``size`` bytes; DataError when there are fewer, before they are allocated."""
        if self.left is not None and size > self.left:
            raise self._short(what)
        data = bytearray()
        while len(data) < size:
            chunk = bytearray(min(CHUNK, size - len(data)))
            self.fill(memoryview(chunk), what)
            data += chunk
        return data

    def read_up_to(self, size: int) -> bytes:
        """The next ``size`` bytes, or as many as there are."""
        data = bytearray()
        while len(data) < size:
            try:
                got = self._stream.read(min(CHUNK, size - len(data)))
            except OSError as exc:
                raise MissingInputError(f"{self.origin} can't be read: {exc.strerror or exc}") from None
            if not got:
                break
            data += got
        if self.left is not None:
            self.left = max(0, self.left - len(data))
        return bytes(data)

    def skip_to_last(self, size: int, what: str) -> None:
        """Moves a regular file to ``size`` bytes before its end; DataError when less than that is left."""
        if self.left is None or self.left < size:
            raise self._short(what)
        try:
            self._stream.seek(self.left - size, os.SEEK_CUR)
        except OSError as exc:
            raise MissingInputError(f"{self.origin} can't be read: {exc.strerror or exc}") from None
        self.left = size

    def _short(self, what: str) -> DataError:
        return DataError(
            f"{self.origin} is cut short or damaged: it ends inside {what}; get the file again from its maker"
        )

    def close(self) -> None:
        """Closes a file that open_source opened; standard input stays open."""
        if self._owned:
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_source(path: PathLike) -> Source:
    """Opens a regular file, or standard input for ``-``.

    Raises MissingInputError for a missing or unreadable file or a folder, DataError for a pipe,
    socket or device that is named instead of being given on standard input.
    """
    if os.fspath(path) == "-":
        if sys.stdin is None:
            raise MissingInputError("standard input is closed; name a file or pipe something in")
        return Source(sys.stdin.buffer, "standard input", None)
    origin = shown(path)
    try:
        _check_regular(os.stat(path), origin)
        fd, via_symlink = _open(path)
    except (DataError, MissingInputError):
        raise
    except ValueError:
        raise MissingInputError(f"{origin} is not a file name; name an existing file") from None
    except OSError as exc:
        hint = "; check the name" if isinstance(exc, FileNotFoundError | NotADirectoryError) else ""
        raise MissingInputError(f"{origin} can't be read: {exc.strerror or exc}{hint}") from None
    try:
        found = os.fstat(fd)
        _check_regular(found, origin)
        source = Source(os.fdopen(fd, "rb", buffering=0), origin, found.st_size)
    except BaseException:
        os.close(fd)
        raise
    source.mode = stat.S_IMODE(found.st_mode)
    source.via_symlink = via_symlink
    source._owned = True
    return source


def _open(path: PathLike) -> tuple[int, bool]:
    """(descriptor, whether the last part was a symbolic link); never waits for a pipe's other end."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return os.open(path, flags | os.O_NOFOLLOW), False
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
    return os.open(path, flags), True


def _check_regular(found: os.stat_result, origin: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise MissingInputError(f"{origin} is a folder; name a file")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{origin} is a pipe or device, not a file; send its bytes to standard input (-)")
