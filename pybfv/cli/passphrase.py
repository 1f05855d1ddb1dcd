"""Passphrases of secret keys: asked on the terminal, or read from a file descriptor; and the command that sets them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click

from pybfv.cli.group import cli
from pybfv.cli.options import EXIT_CODES
from pybfv.cli.tools import key_warnings, note, one_stdin
from pybfv.errors import KeyRefusedError, MissingInputError, UsageError

LINE = 1026
"""Bytes read of one line at most: the longest passphrase (pybfv.io.protect) and a line end."""

MAX_FD = 2**31 - 1
"""The largest file descriptor that there can be."""

Ask = Callable[[str], bytearray]

passphrase_fd_option = click.option(
    "--passphrase-fd", "fd", type=click.IntRange(0, MAX_FD), metavar="N",
    help="Read a protected key's passphrase, one line, from this file descriptor; else it is asked for.",
)  # fmt: skip


def asked(fd: int | None, *paths: str | None, new: bool = False) -> Ask:
    """What reads a passphrase, given the key's name: a line of ``fd``, else the terminal, twice for a ``new`` one.

    ``paths``: the command's inputs, of which standard input can't be one when ``fd`` is 0.
    """
    if fd == 0:
        one_stdin("-", *paths)

    def ask(origin: str) -> bytearray:
        if fd is not None:
            return _read_fd(fd)
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            reason = f"{origin} needs a passphrase" if new else f"{origin} is protected by a passphrase"
            raise KeyRefusedError(
                f"{reason}, and there is no terminal to ask on: give it with --passphrase-fd"
            ) from None
        try:
            found = _prompt(terminal, f"{'New passphrase' if new else 'Passphrase'} for {origin}: ")
            if new:
                again = _prompt(terminal, "Again: ")
                same = found == again
                _wipe(again)
                if not same:
                    _wipe(found)
                    raise KeyRefusedError("the two passphrases differ; nothing was written: run it again")
            return found
        finally:
            os.close(terminal)

    return ask


def _read_fd(fd: int) -> bytearray:
    try:
        with _without_echo(fd):
            return _line(fd)
    except OSError as exc:
        raise MissingInputError(f"--passphrase-fd {fd} can't be read: {exc.strerror or exc}") from None


def _prompt(terminal: int, text: str) -> bytearray:
    try:
        with _without_echo(terminal):
            os.write(terminal, text.encode("utf-8", "replace"))
            return _line(terminal)
    except OSError as exc:
        raise MissingInputError(f"the terminal can't be read: {exc.strerror or exc}") from None


def _line(fd: int) -> bytearray:
    """One line without its end, LF or CRLF. Read byte by byte, so that what follows stays for who reads next."""
    buffer = bytearray(LINE + 1)
    view = memoryview(buffer)
    size = 0
    try:
        while size <= LINE and os.readv(fd, [view[size : size + 1]]) and buffer[size] != 10:
            size += 1
        if size and size <= LINE and buffer[size] == 10 and buffer[size - 1] == 13:
            size -= 1
        return bytearray(view[:size])
    finally:
        _wipe(buffer)


@contextmanager
def _without_echo(fd: int) -> Iterator[None]:
    """A terminal shows only the end of the line meanwhile; anything else is left alone."""
    import termios

    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        yield
        return
    quiet = [*before[:3], before[3] & ~termios.ECHO | termios.ECHONL, *before[4:]]
    termios.tcsetattr(fd, termios.TCSAFLUSH, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _wipe(buffer: bytearray) -> None:
    buffer[:] = bytes(len(buffer))


@cli.command("passphrase", epilog=EXIT_CODES)
@click.argument("key_path", metavar="SECRET.KEY")
@click.option("--remove", is_flag=True, help="Store the key without a passphrase.")
@passphrase_fd_option
@click.option(
    "--new-passphrase-fd", "new_fd", type=click.IntRange(0, MAX_FD), metavar="N",
    help="Read the new passphrase, one line, from this file descriptor; else it is asked for, twice.",
)  # fmt: skip
def passphrase_command(key_path: str, remove: bool, fd: int | None, new_fd: int | None) -> None:
    """Set, change or remove the passphrase of a secret key. The file is replaced in one step, or not at all.

    \b
    Example:
      pybfv passphrase keys/secret.key
    """
    from pybfv.io.secret_key import read_secret, write_secret

    if key_path == "-":
        raise UsageError("a key that is replaced must be a file; name it")
    if remove and new_fd is not None:
        raise UsageError("--remove takes no new passphrase; leave out --new-passphrase-fd")
    with key_warnings():
        key = read_secret(key_path, asked(fd))
    try:
        write_secret(key_path, key, None if remove else asked(new_fd, new=True), replace=True)
    finally:
        key.wipe()
    note(f"{key_path} is {'not protected by any passphrase now' if remove else 'protected by the new passphrase'}")
