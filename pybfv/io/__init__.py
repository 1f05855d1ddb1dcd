"""Files: study, keys, contributions, partials, results (FORMAT.md is the byte layout).

Every file is taken as hostile: lengths are checked before anything is allocated, every bit is under a
checksum, and what is wrong is refused naming the file. Secret keys are not among this package's names:
pybfv.io.secret_key is imported by name, and never by a server.
"""

from __future__ import annotations

from pybfv.io.atomic import atomic_output
from pybfv.io.canonical import canonical_bytes, parse_canonical
from pybfv.io.ciphertext import ContributionReader, ContributionWriter
from pybfv.io.container import Kind
from pybfv.io.inspect import describe
from pybfv.io.key import PublicKey, read_public, write_public
from pybfv.io.partial import Partial, read_partial, write_partial
from pybfv.io.result import Result, read_result, write_result
from pybfv.io.study import StudyDoc, parse_study, read_study, study_hash, write_study

__all__ = [
    "ContributionReader",
    "ContributionWriter",
    "Kind",
    "Partial",
    "PublicKey",
    "Result",
    "StudyDoc",
    "atomic_output",
    "canonical_bytes",
    "describe",
    "parse_canonical",
    "parse_study",
    "read_partial",
    "read_public",
    "read_result",
    "read_study",
    "study_hash",
    "write_partial",
    "write_public",
    "write_result",
    "write_study",
]
