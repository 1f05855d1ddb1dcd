"""Protected keys: the format by the document alone, every change refused, and where a passphrase comes from."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import io
import json
import os
import pty
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Command, without_privileges
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from io_tools import SAMPLES, put_together, samples, take_apart

from pybfv.errors import DataError, KeyRefusedError, MissingInputError, OutputError
from pybfv.io import canonical_bytes, describe, protect, read_public
from pybfv.io.secret_key import SecretKey, read_key, read_secret, write_secret

PROTECTED = (SAMPLES / "protected.key").read_bytes()
GOOD = samples.PASSPHRASE
REFUSAL = "does not open: the passphrase is wrong, or the file was changed"


# ---- the format, by the document alone


def salsa20_8(block: bytes) -> bytes:
    x = list(struct.unpack("<16I", block))
    first = x[:]
    quarters = [(0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11)]
    rows = [(0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)]
    for _ in range(4):
        for a, b, c, d in quarters + rows:
            for to, one, other, turn in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
                word = (x[one] + x[other]) & 0xFFFFFFFF
                x[to] ^= ((word << turn) | (word >> (32 - turn))) & 0xFFFFFFFF
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, first, strict=True)))


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def scrypt(passphrase: bytes, salt: bytes, n: int, r: int, p: int, size: int) -> bytes:
    """RFC 7914, for small n."""
    whole = hashlib.pbkdf2_hmac("sha256", passphrase, salt, 1, p * 128 * r)

    def mix(block: bytes) -> bytes:
        x, out = block[-64:], []
        for i in range(2 * r):
            x = salsa20_8(xor(x, block[64 * i : 64 * i + 64]))
            out.append(x)
        return b"".join(out[::2] + out[1::2])

    mixed = b""
    for i in range(p):
        x, seen = whole[128 * r * i : 128 * r * (i + 1)], []
        for _ in range(n):
            seen.append(x)
            x = mix(x)
        for _ in range(n):
            x = mix(xor(x, seen[int.from_bytes(x[-64:-56], "little") % n]))
        mixed += x
    return hashlib.pbkdf2_hmac("sha256", passphrase, mixed, 1, size)


def gcm_open(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
    """AES-GCM from single AES blocks and GHASH in integers."""

    def block(data: bytes) -> bytes:
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)

    def times(x: int, y: int) -> int:
        z = 0
        for i in range(127, -1, -1):
            if x >> i & 1:
                z ^= y
            y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
        return z

    text, tag = sealed[:-16], sealed[-16:]
    h, y = int.from_bytes(block(bytes(16)), "big"), 0
    padded = b"".join(part + bytes(-len(part) % 16) for part in (associated, text))
    padded += struct.pack(">QQ", 8 * len(associated), 8 * len(text))
    for i in range(0, len(padded), 16):
        y = times(y ^ int.from_bytes(padded[i : i + 16], "big"), h)
    mask = [block(nonce + struct.pack(">I", i + 1)) for i in range(1 + -(-len(text) // 16))]
    assert hmac.compare_digest(xor(y.to_bytes(16, "big"), mask[0]), tag)
    return xor(text, b"".join(mask[1:])[: len(text)])


def test_the_second_implementation_against_published_vectors():
    assert scrypt(b"", b"", 16, 1, 1, 64).hex().startswith("77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3f")
    # the GCM specification's test case 14
    sealed = bytes.fromhex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919")
    assert gcm_open(bytes(32), bytes(12), sealed, b"") == bytes(16)


def test_the_sample_by_the_document_alone():
    kind, records = take_apart(PROTECTED)
    assert kind == 1
    assert [tag for tag, _ in records] == [b"HEAD", b"SEAL", b"END "]
    header = json.loads(records[0][1])
    how = header["protection"]
    assert (how["kdf"], how["cipher"], set(how)) == (
        "scrypt", "aes-256-gcm", {"kdf", "cipher", "log2_n", "r", "p", "salt", "nonce"},
    )  # fmt: skip
    salt, nonce = bytes.fromhex(how["salt"]), bytes.fromhex(how["nonce"])
    key = scrypt(GOOD.encode(), salt, 1 << how["log2_n"], how["r"], how["p"], 32)
    plain = gcm_open(key, nonce, records[1][1], PROTECTED[:12] + records[0][1])
    assert plain == take_apart((SAMPLES / "secret.key").read_bytes())[1][1][1]
    del header["protection"]
    assert canonical_bytes(header) == take_apart((SAMPLES / "secret.key").read_bytes())[1][0][1]


# ---- reading and writing


def opened(data: bytes, passphrase, monkeypatch, reader=read_secret) -> SecretKey:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    return reader("-", passphrase)


def never(origin: str) -> bytearray:
    raise AssertionError("asked for a passphrase before the file was checked")


@pytest.fixture
def cheap(monkeypatch):
    monkeypatch.setattr(protect, "LOG2_N", 4)


def test_round_trip_and_ways_to_give_a_passphrase(tmp_path, cheap, monkeypatch):
    key = samples.secret_key()
    write_secret(tmp_path / "a", key, GOOD)
    given = []

    def ask(origin: str) -> bytearray:
        given.append((origin, bytearray(GOOD.encode())))
        return given[-1][1]

    for passphrase in (GOOD, GOOD.encode(), bytearray(GOOD.encode()), ask):
        for reader in (read_secret, read_key):
            again = reader(tmp_path / "a", passphrase)
            assert np.array_equal(again.s, key.s)
            assert (again.key_id, again.study_hash) == (key.key_id, key.study_hash)
    assert [origin for origin, _ in given] == [str(tmp_path / "a")] * 2
    assert all(not any(answer) for _, answer in given), "answers are wiped"
    assert opened(PROTECTED, GOOD, monkeypatch).s.tolist() == key.s.tolist()
    assert opened((SAMPLES / "secret.key").read_bytes(), never, monkeypatch).s.tolist() == key.s.tolist()


def test_new_files_are_costly_and_never_the_same(tmp_path):
    assert (protect.LOG2_N, protect.R, protect.P) == (17, 8, 1)
    headers = []
    for name in "ab":
        write_secret(tmp_path / name, samples.secret_key(), GOOD)
        _, records = take_apart((tmp_path / name).read_bytes())
        headers.append(json.loads(records[0][1])["protection"])
        assert [headers[-1][field] for field in ("log2_n", "r", "p")] == [17, 8, 1]
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert take_apart((SAMPLES / "secret.key").read_bytes())[1][1][1] not in (tmp_path / name).read_bytes()
    for field in ("salt", "nonce"):
        assert headers[0][field] != headers[1][field]


def test_keys_without_passphrase_are_what_they_were(tmp_path):
    write_secret(tmp_path / "k", samples.secret_key())
    assert (tmp_path / "k").read_bytes() == (SAMPLES / "secret.key").read_bytes()


@pytest.mark.parametrize("wrong", ["", b"", bytearray(), "x" * 1025, lambda origin: bytearray(), 7, None, "\udcff"])
def test_passphrases_that_are_none(wrong, tmp_path, cheap, monkeypatch):
    with pytest.raises(KeyRefusedError) as caught:
        opened(PROTECTED, wrong, monkeypatch)
    assert str(caught.value).isprintable()
    if wrong is not None:  # which writes a key without one
        with pytest.raises(KeyRefusedError, match=r"1 to 1024 bytes|UTF-8"):
            write_secret(tmp_path / "k", samples.secret_key(), wrong)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [GOOD + "x", GOOD[:-1], GOOD.upper(), GOOD + "\n", "x", "x" * 1024, bytes(9)])
def test_wrong_passphrases(wrong, monkeypatch):
    with pytest.raises(KeyRefusedError, match=REFUSAL):
        opened(PROTECTED, wrong, monkeypatch)


# ---- hostile files


def test_every_bit_and_every_length(monkeypatch):
    """Found by checksums, before anybody is asked."""
    changed = bytearray(PROTECTED)
    for bit in range(8 * len(changed)):
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DataError) as caught:
            opened(bytes(changed), never, monkeypatch)
        assert str(caught.value).isprintable()
        changed[bit // 8] ^= 1 << bit % 8
    for size in range(len(changed)):
        with pytest.raises(DataError):
            opened(PROTECTED[:size], never, monkeypatch)
    with pytest.raises(DataError, match="after its end"):
        opened(PROTECTED + b"\0", never, monkeypatch)


def test_every_bit_of_the_sealed_key_under_sound_checksums(monkeypatch):
    kind, records = take_apart(PROTECTED)
    messages = set()
    for bit in range(8 * len(records[1][1])):
        payload = bytearray(records[1][1])
        payload[bit // 8] ^= 1 << bit % 8
        with pytest.raises(KeyRefusedError, match=REFUSAL) as caught:
            opened(put_together(kind, [records[0], (b"SEAL", bytes(payload)), records[2]]), GOOD, monkeypatch)
        messages.add(str(caught.value))
    with pytest.raises(KeyRefusedError) as caught:
        opened(PROTECTED, "wrong", monkeypatch)
    assert messages == {str(caught.value)}, "damage and a wrong passphrase are one refusal"


def with_header(change) -> bytes:
    kind, records = take_apart(PROTECTED)
    header = json.loads(records[0][1])
    change(header)
    return put_together(kind, [(b"HEAD", canonical_bytes(header)), *records[1:]])


@pytest.mark.parametrize(
    ("field", "value"),
    [("key_id", "0" * 32), ("study_hash", "0" * 64), ("salt", "0" * 32), ("nonce", "0" * 24), ("log2_n", 5), ("r", 4),
     ("p", 2)],
)  # fmt: skip
def test_the_header_is_authenticated(field, value, monkeypatch):
    def change(header):
        (header if field in header else header["protection"])[field] = value

    with pytest.raises(KeyRefusedError, match=REFUSAL):
        opened(with_header(change), GOOD, monkeypatch)


@pytest.mark.parametrize(
    "costs",
    [
        {"log2_n": 20}, {"log2_n": 30}, {"log2_n": 31}, {"log2_n": 0}, {"log2_n": -1}, {"log2_n": 1 << 64},
        {"r": 0}, {"p": 0},
        {"log2_n": 17, "r": 64}, {"log2_n": 17, "p": 5}, {"log2_n": 4, "r": 1 << 30}, {"r": 1024, "p": 1024},
        {"p": 1 << 63},
        {"log2_n": True}, {"log2_n": "4"}, {"kdf": "none"}, {"kdf": "pbkdf2"}, {"cipher": "null"}, {"salt": ""},
        {"salt": "0" * 30}, {"salt": 5}, {"nonce": "x" * 24}, {"surplus": 1}, {"salt": None}, {"kdf": None},
    ],
    ids=str,
)  # fmt: skip
def test_costs_beyond_the_limits_are_refused_before_anything_is_derived(costs, monkeypatch):
    begun = time.monotonic()
    with pytest.raises(DataError, match="wrong header"):
        opened(with_header(lambda header: header["protection"].update(costs)), never, monkeypatch)
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize("value", [None, [], "x", 1, {}, True, ["scrypt"]])
def test_protections_that_are_none(value, monkeypatch):
    with pytest.raises(DataError, match="wrong header"):
        opened(with_header(lambda header: header.update(protection=value)), never, monkeypatch)


def test_the_largest_costs_stay_below_the_limit():
    fields = protect.Protection(19, 8, 1, bytes(16), bytes(12)).described()
    assert protect.Protection.read(fields, "x").memory == protect.MAX_MEMORY < 1 << 30


def test_other_records(monkeypatch):
    kind, records = take_apart(PROTECTED)
    plain = take_apart((SAMPLES / "secret.key").read_bytes())[1]
    for mixed in (
        [records[0], plain[1], records[2]],
        [plain[0], records[1], records[2]],
        [records[0], (b"SEAL", b""), records[2]],
        [records[0], (b"SEAL", records[1][1] + b"\0"), records[2]],
        [records[0], (b"SEAL", records[1][1][:-1]), records[2]],
        [records[0], records[2]],
    ):
        with pytest.raises(DataError):
            opened(put_together(kind, mixed), never, monkeypatch)


def test_others_still_refuse_a_protected_key(tmp_path):
    path = tmp_path / "protected.key"
    path.write_bytes(PROTECTED)
    for reader in (read_public, describe):
        with pytest.raises(KeyRefusedError, match="is a secret key"):
            reader(path)
    with pytest.raises(OutputError, match="never overwritten"):
        write_secret(path, samples.secret_key(), GOOD)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(KeyRefusedError, match="symbolic link"):
        read_secret(tmp_path / "link", never)


def test_too_little_memory_is_a_refusal(monkeypatch):
    def none_left(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(protect, "Scrypt", lambda **kwargs: SimpleNamespace(derive_into=none_left))
    with pytest.raises(KeyRefusedError, match="MiB of memory"):
        opened(PROTECTED, GOOD, monkeypatch)


def test_a_library_without_derive_into(monkeypatch):
    real = protect.Scrypt
    monkeypatch.setattr(protect, "Scrypt", lambda **kwargs: SimpleNamespace(derive=real(**kwargs).derive))
    assert opened(PROTECTED, GOOD, monkeypatch).s.tolist() == samples.secret_key().s.tolist()


# ---- changing a passphrase never loses the key


@pytest.mark.parametrize("failing", ["fsync", "replace", "write"])
def test_a_change_that_fails_leaves_the_old_file(failing, tmp_path, cheap, monkeypatch):
    path = tmp_path / "secret.key"
    write_secret(path, samples.secret_key(), GOOD)
    before = path.read_bytes()

    def fails(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if failing == "write":
        monkeypatch.setattr("pybfv.io.secret_key.RecordWriter.end", fails)
    else:
        monkeypatch.setattr(os, failing, fails)
    with pytest.raises((OutputError, OSError)):
        write_secret(path, samples.secret_key(), "another", replace=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["secret.key"]


def test_a_folder_that_can_not_be_written(cheap):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "secret.key"
        write_secret(path, samples.secret_key(), GOOD)
        before = path.read_bytes()
        Path(name).chmod(0o555)
        with without_privileges():
            for attempt in (path, Path(name) / "new.key"):
                with pytest.raises(OutputError, match="Permission denied"):
                    write_secret(attempt, samples.secret_key(), "another", replace=True)
            if os.geteuid() == 65534:
                with pytest.raises(MissingInputError, match="Permission denied"):
                    read_secret(path, never)
        Path(name).chmod(0o755)
        assert path.read_bytes() == before
        assert os.listdir(name) == ["secret.key"]


# ---- the command line


@pytest.fixture
def job(pybfv: Command, write) -> Command:
    """A study of slots, so that encrypt takes the secret key; keys/secret.key opens with "one two"."""
    write("d.csv", "x\n1\n2\n4\n")
    write("pass", "one two\n")
    plan = ("plan", "d.csv", "--stat", "sum:x", "--reveal", "slots", "--set", "insecure_n64_q106", "--insecure")
    pybfv.ok(*plan, "-o", "study.json")
    shell(pybfv, "keygen study.json -o keys --passphrase-fd 3 3<pass")
    return pybfv


def shell(pybfv: Command, line: str, code: int = 0) -> subprocess.CompletedProcess:
    """A pybfv command with redirections, without any terminal; stderr is one refusal unless it succeeds."""
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m pybfv {line}'],
        cwd=pybfv.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert "one two" not in done.stdout + done.stderr
    return done


def on_terminal(pybfv: Command, line: str, *answers: str, code: int = 0) -> str:
    """A pybfv command with a controlling terminal, on which each prompt gets the next answer; what it showed."""
    master, slave = pty.openpty()

    def take_terminal() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "pybfv", *line.split()],
        cwd=pybfv.folder, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=take_terminal,
    )  # fmt: skip
    shown, asked, left = "", 0, list(answers)
    echo = termios.tcgetattr(slave)[3] & termios.ECHO
    late = time.monotonic() + 60
    while process.poll() is None or select.select([master], [], [], 0.05)[0]:
        if time.monotonic() > late:
            process.kill()
        if select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 4096).decode()
        if shown.count(": ", asked) and shown.endswith(": ") and left:
            assert not termios.tcgetattr(slave)[3] & termios.ECHO
            os.write(master, left.pop(0).encode())
            asked = len(shown)
    assert process.returncode == code, shown
    assert termios.tcgetattr(slave)[3] & termios.ECHO == echo, "the terminal is as it was"
    os.close(master)
    os.close(slave)
    assert not left
    return shown


@pytest.mark.slow
def test_a_whole_job_with_a_passphrase(job: Command) -> None:
    assert stat.S_IMODE((job.folder / "keys/secret.key").stat().st_mode) == 0o600
    assert "protection" in json.loads(take_apart((job.folder / "keys/secret.key").read_bytes())[1][0][1])
    shell(job, "encrypt study.json - --key keys/secret.key -o d.bfvc --passphrase-fd 3 3<pass <d.csv")
    job.ok("compute", "d.bfvc", "-o", "r.bfvr")
    line = "decrypt r.bfvr --key keys/secret.key"
    assert shell(job, f"{line} --passphrase-fd 7 7<pass").stdout.startswith("sum x = 7\n")
    assert shell(job, f"{line} --passphrase-fd 0 <pass").stdout.startswith("sum x = 7\n")
    assert "--passphrase-fd" in shell(job, line, 77).stderr.splitlines()[-1]
    assert REFUSAL in shell(job, f"{line} --passphrase-fd 3 3<d.csv", 77).stderr
    assert "can't be read" in shell(job, f"{line} --passphrase-fd 9", 66).stderr
    assert "standard input" in shell(job, "decrypt - --key keys/secret.key --passphrase-fd 0 <r.bfvr", 2).stderr
    shell(job, f"{line} --passphrase-fd x", 2)
    for option in ("--passphrase=x", "--passphrase"):  # never an option's value
        assert shell(job, f"{line} {option}", 2).stdout == ""
    os.environ.update(PYBFV_PASSPHRASE="one two", PASSPHRASE="one two")
    try:
        shell(job, line, 77)
    finally:
        del os.environ["PYBFV_PASSPHRASE"], os.environ["PASSPHRASE"]


def test_keygen_without_a_passphrase_to_be_had_makes_nothing(job: Command, write) -> None:
    write("empty", "")
    write("long", "x" * 1025)
    for line in ("--passphrase", "--passphrase-fd 3 3<empty", "--passphrase-fd 3 3<long"):
        shell(job, f"keygen study.json -o new {line}", 77)
    shell(job, "keygen study.json -o new --passphrase-fd 3", 66)
    shell(job, "keygen study.json -o new --passphrase word", 2)
    assert sorted(p.name for p in job.folder.iterdir()) == ["d.csv", "empty", "keys", "long", "pass", "study.json"]


@pytest.mark.parametrize("command", ["encrypt study.json d.csv --key k -o c", "decrypt r --key k", "passphrase k",
                                     "passphrase k --new-passphrase-fd 3", "keygen study.json -o kk"])  # fmt: skip
def test_descriptors_that_no_system_has_are_refused(job: Command, command: str) -> None:
    found = shell(job, f"{command} --passphrase-fd {2**31}", 2)
    assert "is not in the range" in found.stderr


@pytest.mark.slow
def test_the_terminal_asks_without_echo(job: Command) -> None:
    shown = on_terminal(job, "keygen study.json -o new --passphrase", "one two\n", "one two\n")
    assert shown.split("\r\n")[:2] == ["New passphrase for new/secret.key: ", "Again: "]
    assert "one two" not in shown
    shell(job, "passphrase new/secret.key --remove --passphrase-fd 3 3<pass")
    shown = on_terminal(job, "keygen study.json -o other --passphrase", "one two\n", "one tow\n", code=77)
    assert "the two passphrases differ" in shown
    assert not (job.folder / "other").exists()
    shell(job, "encrypt study.json d.csv --key keys/secret.key -o d.bfvc --passphrase-fd 3 3<pass")
    job.ok("compute", "d.bfvc", "-o", "r.bfvr")
    line = "decrypt r.bfvr --key keys/secret.key"
    assert "sum x = 7" in on_terminal(job, line, "one two\n")
    assert REFUSAL in on_terminal(job, line, "wrong\n", code=77)
    assert "1 to 1024 bytes" in on_terminal(job, line, "\n", code=77)
    assert "interrupted" in on_terminal(job, line, "one\x03", code=130)
    assert "sum x = 7" in on_terminal(job, f"{line} -o out.txt", "one two\n") + (job.folder / "out.txt").read_text()


@pytest.mark.slow
def test_the_passphrase_command(job: Command, write) -> None:
    path = job.folder / "keys" / "secret.key"
    write("both", "one two\r\nthree\r\n")
    write("three", "three")
    shell(job, "passphrase keys/secret.key --passphrase-fd 3 --new-passphrase-fd 3 3<both")
    assert REFUSAL in shell(job, "passphrase keys/secret.key --remove --passphrase-fd 3 3<pass", 77).stderr
    before = path.read_bytes()
    shell(job, "passphrase keys/secret.key --passphrase-fd 3 3<three", 77)  # no new one to be had
    shell(job, "passphrase keys/secret.key --passphrase-fd 3 --new-passphrase-fd 4 3<three 4</dev/null", 77)
    shell(job, "passphrase keys/secret.key --passphrase-fd 3 --new-passphrase-fd 3 --remove 3<three", 2)
    shell(job, "passphrase - --passphrase-fd 3 3<three", 2)
    shell(job, "passphrase keys/public.key --passphrase-fd 3 3<three", 77)
    assert path.read_bytes() == before
    path.chmod(0o644)
    assert "chmod 600" in shell(job, "passphrase keys/secret.key --remove --passphrase-fd 3 3<three").stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "protection" not in json.loads(take_apart(path.read_bytes())[1][0][1])
    on_terminal(job, "passphrase keys/secret.key", "four\n", "four\n")
    shown = on_terminal(job, "passphrase keys/secret.key", "four\n", "five\n", "five\n")
    assert "protected by the new passphrase" in shown
    assert sorted(p.name for p in path.parent.iterdir()) == ["public.key", "secret.key"]
    read_secret(path, "five")


@pytest.mark.slow
def test_killed_while_the_passphrase_is_changed(job: Command, write) -> None:
    """At any moment there is a whole key under the name, with the old or the new passphrase."""
    path = Path(job.folder / "keys" / "secret.key")
    write("three", "three\n")
    for k in range(6):
        old, new = ("pass", "three") if k % 2 == 0 else ("three", "pass")
        line = f"passphrase keys/secret.key --passphrase-fd 3 --new-passphrase-fd 4 3<{old} 4<{new}"
        command = ["bash", "-c", f'exec "{sys.executable}" -m pybfv {line}']
        process = subprocess.Popen(command, cwd=job.folder, stderr=subprocess.DEVNULL)
        time.sleep(0.4 + 0.3 * k)
        process.send_signal(signal.SIGKILL)
        process.wait()
        opens = [name for name in ("pass", "three") if opens_with(path, (job.folder / name).read_text().strip())]
        assert len(opens) == 1
        if opens == [old]:  # so that the next round begins where this one should have ended
            shell(job, line)


def opens_with(path: Path, passphrase: str) -> bool:
    try:
        return read_secret(path, passphrase) is not None
    except KeyRefusedError:
        return False
