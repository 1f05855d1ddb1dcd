"""Outputs that appear whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from pybfv.entropy import fresh_bytes
from pybfv.errors import OutputError
from pybfv.io.container import MAGIC, Kind
from pybfv.io.source import PathLike, shown

_SYSTEM = ("/dev", "/proc", "/sys")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_PROC = "/proc/self/fd"
MAX_PEM = 1 << 14
"""Bytes of a key's PEM file at most."""


class _Output(io.BufferedIOBase):
    """A stream whose failures to write are OutputErrors that name the target."""

    def __init__(self, raw: Any, target: str) -> None:
        self._raw = raw
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            view = memoryview(data).cast("B")
            done = 0
            while done < len(view):  # an unbuffered file may take less than it is given
                done += self._raw.write(view[done:])
            return done
        except BrokenPipeError:
            raise  # the reader of a pipe went away: nothing to tell anyone
        except OSError as exc:
            raise _failed(self._target, exc) from None

    def flush(self) -> None:
        try:
            self._raw.flush()
        except BrokenPipeError:
            raise
        except OSError as exc:
            raise _failed(self._target, exc) from None

    def sync(self) -> None:
        """Everything that was written is on the disk."""
        self.flush()
        try:
            os.fsync(self._raw.fileno())
        except OSError as exc:
            raise _failed(self._target, exc) from None


@contextmanager
def atomic_output(
    path: PathLike,
    *,
    force: bool = False,
    mode: int = 0o644,
    hint: str = "give --force or another name",
    inputs: Sequence[Any] = (),
    secret: bool = False,
) -> Iterator[BinaryIO]:
    """A binary stream whose bytes become the file ``path`` when the block ends without an exception.

    They go to a file without a name in the same folder (permissions ``mode`` less the umask, from its
    creation), which is flushed to disk and then takes the name in one step: a process that is killed leaves
    nothing. Where the file system has no such files, they have the name .pybfv-*.part until then, and a kill leaves
    that. Without ``force`` an existing
    target is refused at once, and again at the end should it have appeared meanwhile; ``hint`` ends that
    message. With ``force`` a regular file or symbolic link of that name is replaced, and keeps its
    permissions; but never a secret key, and none of ``inputs`` (the files that the command reads). After any
    exception, KeyboardInterrupt too, nothing is left. ``secret``: the file is a secret key, so only its owner may
    use it, no buffer holds its bytes, and with ``force`` it may take the place of a secret key. ``-`` is standard
    output, written directly. Raises OutputError for whatever can't be written.
    """
    if os.fspath(path) == "-":
        stream = _Output(sys.stdout.buffer, "standard output")
        yield cast(BinaryIO, stream)
        stream.flush()
        return
    origin = shown(path)
    try:
        target = os.path.abspath(os.fsdecode(path))
    except OSError as exc:  # the current folder is gone
        raise _failed(origin, exc) from None
    _check_target(os.fsdecode(path), origin, force, hint, inputs, secret)
    with suppress(OSError):
        mode = stat.S_IMODE(os.stat(target).st_mode)  # what is replaced keeps its permissions
    if secret:
        mode = 0o600
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".pybfv-{fresh_bytes(8).hex()}.part")
    raw: BinaryIO | None = None
    try:
        try:
            try:
                fd = _open_nameless(folder, mode)
                nameless = fd is not None
                if fd is None:
                    fd = _open_named(temporary, mode)
                raw = os.fdopen(fd, "wb", buffering=0 if secret else -1)
            except FileNotFoundError:
                raise OutputError(f"{origin} can't be written: its folder does not exist; make it first") from None
            except OSError as exc:
                raise _failed(origin, exc) from None
            stream = _Output(raw, origin)
            yield cast(BinaryIO, stream)
            stream.sync()
            try:
                if not nameless or not _link(fd, temporary if force else target):
                    if nameless:
                        _copy(fd, temporary, mode)
                    _publish(temporary, target, force)
                elif force:
                    os.replace(temporary, target)
                _sync_folder(folder)
            except FileExistsError:
                raise OutputError(f"{origin} exists: {hint}") from None
            except OSError as exc:
                raise _failed(origin, exc) from None
        finally:
            _remove(temporary)
    finally:  # twice, as a signal may end the first
        _remove(temporary)
        if raw is not None:
            with suppress(OSError):
                raw.close()


def check_pair(secret: str, public: str, never: str) -> None:
    """OutputError when either file of a new pair of keys is there; ``never`` ends it."""
    if os.path.lexists(secret):
        raise OutputError(f"{shown(secret)} exists; {never}")
    if os.path.lexists(public):
        half = f"without its {os.path.basename(secret)} (if an interrupted run left it, remove it and run again)"
        raise OutputError(f"{shown(public)} exists {half}; {never}")


@contextmanager
def pair_folder(secret: str, public: str, content: bytes | memoryview, never: str) -> Iterator[None]:
    """The folder of two new key files, which the block writes; made if it is not there.

    Both names must be free; ``never`` ends the refusal. When the block fails, a file ``public`` with that ``content``
    and without ``secret``, which serves nobody, is removed, and a folder that was made, too.
    """
    check_pair(secret, public, never)
    folder = os.path.dirname(secret)
    new = not os.path.isdir(folder or ".")
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as e:
        raise OutputError(f"{shown(folder)} can't be made: {e.strerror}; name another folder") from None
    try:
        yield
    except BaseException:
        with suppress(OSError), open(public, "rb") as left:
            if not os.path.lexists(secret) and left.read() == content:  # another's is left alone
                os.unlink(public)
        if new:
            with suppress(OSError):
                os.rmdir(folder)
        raise


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _open_nameless(folder: str, mode: int) -> int | None:
    """A descriptor of a new file without a name, which _link can give one; None where there is no such thing."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir(_PROC):
        return None
    with suppress(OSError):  # what else may be wrong shows when a name is tried
        return os.open(folder, flag | os.O_RDWR | os.O_CLOEXEC, mode)
    return None


def _open_named(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _link(fd: int, name: str) -> bool:
    """Gives an open file a new name; False where that can't be. FileExistsError when the name is taken."""
    try:
        proc = os.open(_PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # what stands there is a link to the file, to be followed
            os.link(str(fd), name, src_dir_fd=proc, follow_symlinks=True)
        finally:
            os.close(proc)
    except OSError as exc:
        if exc.errno not in {*_NO_LINKS, errno.ENOENT, errno.EXDEV}:
            raise
        return False
    return True


def _copy(fd: int, path: str, mode: int) -> None:
    """Copies an open file to a new one, down to the disk."""
    out = _open_named(path, mode)
    try:
        done, size = 0, os.fstat(fd).st_size
        while done < size:
            done += os.sendfile(out, fd, done, size - done)
        os.fsync(out)
    finally:
        os.close(out)


def _check_target(path: str, origin: str, force: bool, hint: str, inputs: Sequence[Any], secret: bool) -> None:
    """Refuses what the finished file could not replace, or may not."""
    if "\0" in path or not path:
        raise OutputError(f"{origin or 'an empty name'} is not a file name; name a file")
    if path.endswith(os.sep) or os.path.isdir(path):
        raise OutputError(f"{origin} is a folder; name a file in it")
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        raise _failed(origin, exc) from None
    if not stat.S_ISREG(found.st_mode):
        with suppress(OSError):
            found = os.stat(path)  # a link to a device must not be replaced either
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise OutputError(f"{origin} is a pipe or device, not a file; use - for standard output")
    if os.path.realpath(os.path.dirname(os.path.abspath(path))).startswith(_SYSTEM):
        raise OutputError(f"{origin} is in a system folder; use - for standard output")
    if not force:
        raise OutputError(f"{origin} exists: {hint}")
    if not secret and _is_secret_key(path):
        raise OutputError(f"{origin} is a secret key, which is never overwritten; give another name")
    for other in inputs:
        with suppress(OSError):
            if isinstance(other, str | os.PathLike) and os.path.samefile(path, other):
                raise OutputError(f"{origin} is an input of this command, too; give another name")


def _is_secret_key(path: str) -> bool:
    """Whether a file is a secret key of ours, or holds a private key in PEM, of whatever kind."""
    with suppress(OSError), open(path, "rb") as stream:
        start = stream.read(MAX_PEM)
        if re.search(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----", start):
            return True
        return start.startswith(MAGIC) and int.from_bytes(start[10:12], "little") == Kind.SECRET_KEY
    return False


def _publish(temporary: str, target: str, force: bool) -> None:
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # fails when the target exists, unlike a rename
    except FileExistsError:
        raise
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # A file system without hard links: claim the name, which also fails when it exists.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.replace(temporary, target)
        except BaseException:
            os.unlink(target)
            raise


def _sync_folder(folder: str) -> None:
    """Makes the new name durable, where the file system can."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _failed(origin: str, exc: OSError) -> OutputError:
    return OutputError(f"{origin} can't be written: {exc.strerror or exc}")
