"""Key files: round trips, permissions, links, wrong kinds; a secret key shows and gives nothing."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import warnings

import numpy as np
import pytest
from io_tools import SAMPLES, samples

from pybfv.errors import DataError, KeyRefusedError, OutputError
from pybfv.io import (
    PublicKey,
    StudyDoc,
    atomic_output,
    read_public,
    write_public,
)
from pybfv.io.secret_key import KeyPermissionWarning, SecretKey, read_key, read_secret, write_secret

# ---- keys


def test_public_key_round_trip(tmp_path):
    key = samples.public_key()
    with atomic_output(tmp_path / "public.key") as stream:
        write_public(stream, key)
    for read in (read_public, read_key):
        again = read(tmp_path / "public.key")
        assert (again.key_id, again.study, again.seed) == (key.key_id, key.study, key.seed)
        assert (again.n, again.primes) == (samples.N, samples.PRIMES)
        assert np.array_equal(again.p0, key.p0)
    (tmp_path / "link.key").symlink_to(tmp_path / "public.key")
    assert read_public(tmp_path / "link.key").key_id == key.key_id
    assert "p0" not in repr(key)
    assert key.key_id in repr(key)


def test_key_id_depends_on_all_of_the_key():
    doc, p0 = samples.study(), samples.residues(salt=7)
    other_study = StudyDoc.from_data(samples.STUDY | {"statistics": []})
    ids = {
        PublicKey(study, samples.N, samples.PRIMES, seed, x).key_id
        for study in (doc, other_study)
        for seed in (bytes(32), samples.SEED)
        for x in (p0, p0[:, ::-1])
    }
    assert len(ids) == 8


def test_public_key_that_does_not_fit():
    doc, p0 = samples.study(), samples.residues(salt=7)
    too_big = p0.copy()
    too_big[0, 3] = samples.PRIMES[0]
    for arguments in (
        (samples.N, samples.PRIMES, bytes(31), p0),
        (samples.N, samples.PRIMES, samples.SEED, p0.astype(np.uint64)),
        (samples.N, samples.PRIMES, samples.SEED, p0[:, :8]),
        (samples.N, samples.PRIMES[::-1], samples.SEED, p0),
        (32, samples.PRIMES, samples.SEED, p0),
        (samples.N, samples.PRIMES, samples.SEED, too_big),
    ):
        with pytest.raises(DataError):
            PublicKey(doc, *arguments)


def test_secret_key_round_trip(tmp_path):
    key = samples.secret_key()
    path = tmp_path / "secret.key"
    write_secret(path, key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (read_secret, read_key):
            again = read(path)
            assert np.array_equal(again.s, key.s)
            assert again.s.dtype == np.int8
            assert (again.key_id, again.study_hash, again.set_name, again.n) == (
                key.key_id,
                key.study_hash,
                key.set_name,
                key.n,
            )


def test_secret_key_shows_and_gives_nothing():
    key = samples.secret_key()
    for text in (repr(key), str(key), f"{[key]}"):
        assert "array" not in text
        assert "-1" not in text
        assert key.key_id in text
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(KeyRefusedError):
            attempt(key)


def test_secret_key_that_does_not_fit():
    good = samples.secret_key()
    for s in (good.s * 2, good.s[:8], good.s.astype(np.int64)):
        with pytest.raises(DataError):
            SecretKey(good.study_hash, good.key_id, good.set_name, good.n, s)
    with pytest.raises(DataError):
        SecretKey(good.study_hash, good.key_id, good.set_name, 32, good.s)
    with pytest.raises(DataError):
        SecretKey("x", good.key_id, good.set_name, good.n, good.s)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_secret_key_is_private_from_creation(tmp_path, umask, named, monkeypatch):
    if named:  # as where a file can't be without a name
        monkeypatch.delattr(os, "O_TMPFILE")
    nameless = getattr(os, "O_TMPFILE", -1)
    made = []
    real_open = os.open

    def watching(path, flags, mode=0o777, **kwargs):
        fd = real_open(path, flags, mode, **kwargs)
        if flags & os.O_CREAT or flags & nameless == nameless:
            new = flags & nameless == nameless or (flags & os.O_EXCL and flags & os.O_NOFOLLOW)
            made.append((stat.S_IMODE(os.fstat(fd).st_mode), bool(new)))
        return fd

    monkeypatch.setattr(os, "open", watching)
    before = os.umask(umask)
    try:
        write_secret(tmp_path / "secret.key", samples.secret_key())
    finally:
        os.umask(before)
    assert made == [(0o600, True)]
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret.key"]


def test_secret_key_is_never_overwritten(tmp_path):
    path = tmp_path / "secret.key"
    path.write_bytes(b"precious")
    with pytest.raises(OutputError, match="never overwritten"):
        write_secret(path, samples.secret_key())
    assert path.read_bytes() == b"precious"
    assert len(os.listdir(tmp_path)) == 1
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError):
        write_secret(tmp_path / "dangling", samples.secret_key())
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(OutputError):
        write_secret("-", samples.secret_key())


def test_secret_key_through_a_link_or_open_to_others(tmp_path):
    path = tmp_path / "secret.key"
    write_secret(path, samples.secret_key())
    (tmp_path / "link.key").symlink_to(path)
    for read in (read_key, read_secret):
        with pytest.raises(KeyRefusedError, match="symbolic link"):
            read(tmp_path / "link.key")
    path.chmod(0o640)
    with pytest.warns(KeyPermissionWarning, match="chmod 600"):
        read_secret(path)


def test_wrong_kind_of_key(tmp_path):
    write_secret(tmp_path / "secret.key", samples.secret_key())
    with pytest.raises(KeyRefusedError, match="is a secret key; this needs a public key"):
        read_public(tmp_path / "secret.key")
    with pytest.raises(KeyRefusedError, match="is a public key; this needs a secret key"):
        read_secret(SAMPLES / "public.key")
    with pytest.raises(DataError, match=r"result.bfvr is a result; this needs a public key"):
        read_key(SAMPLES / "result.bfvr")
