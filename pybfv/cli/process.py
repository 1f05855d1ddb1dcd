"""Runs a command: signals, streams, and every failure as one line with its exit code."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from typing import Any, NoReturn

import click

from pybfv.cli import bench_paper, bench_speed, passphrase, show, steps  # noqa: F401  they join the group
from pybfv.cli.group import cli
from pybfv.cli.tools import note
from pybfv.errors import MissingInputError, OutputError, PybfvError, UsageError


def _interrupt(number: int, frame: Any) -> NoReturn:
    # As an exception, so that temporary files are removed on the way out.
    raise SystemExit(128 + number)


def _fail(error: PybfvError) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 1000 else text[:700] + " ... " + text[-295:]
    note(text.encode("utf-8", "replace").decode())
    return error.exit_code


class _Closed:
    """Stands for a standard output that was closed before we began: writing to it fails as on a full disk."""

    def __init__(self) -> None:
        self.buffer = self

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _open_streams() -> None:
    """Gives closed standard streams a stand-in, so that their absence shows where they are used."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = _Closed()  # type: ignore[assignment]


def main(args: list[str] | None = None) -> int:
    """Runs the command line and returns the exit code; no traceback reaches a user."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    _open_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing uses it, and its threads take address space
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # keys and data never go into a core dump
    try:
        # not cli.main: it would turn a broken pipe into exit 1
        with cli.make_context("pybfv", list(sys.argv[1:] if args is None else args)) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except PybfvError as e:
        return _fail(e)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return 2
    except click.NoSuchOption as e:
        known = [o for p in e.ctx.command.params for o in p.opts if o.startswith("--")] if e.ctx else []
        return _fail(UsageError(f"unknown option {e.option_name}; known are {', '.join(known)}, --help"))
    except click.ClickException as e:
        where = f" (see: {e.ctx.command_path} --help)" if isinstance(e, click.UsageError) and e.ctx else ""
        return _fail(UsageError(f"{e.format_message()}{where}"))
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        _discard_stdout()
        return 141
    except OSError as e:
        if e.filename is None:  # no file that somebody named: standard output
            _discard_stdout()
            return _fail(OutputError(f"standard output can't be written: {e.strerror or e}"))
        return _fail(MissingInputError(f"{e.filename} can't be used: {e.strerror}; check the name"))
    except MemoryError as e:
        said = f": {e}" if str(e) else ""
        return _fail(PybfvError(f"out of memory{said}; use fewer columns, a smaller set or another machine"))
    except RuntimeError as e:
        if isinstance(e.__cause__, KeyboardInterrupt):  # caught while a module was being imported
            return _interrupted()
        return _defect(e)
    except Exception as e:
        return _defect(e)


def _interrupted() -> int:
    note("interrupted")
    return 130


def _defect(error: Exception) -> int:
    """Still one line, and a way to see more."""
    if os.environ.get("PYBFV_DEBUG"):
        raise error
    kind = f"internal error, {type(error).__name__}: {error}"
    return _fail(PybfvError(f"{kind}; set PYBFV_DEBUG=1 for details and report it"))


def _discard_stdout() -> None:
    """Lets interpreter shutdown flush what is left to nowhere, quietly."""
    if not isinstance(sys.stdout, _Closed):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def entry() -> NoReturn:
    """The console script."""
    sys.exit(main())
