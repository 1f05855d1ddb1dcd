"""Signed files: the samples by the document alone, keys, who is trusted, minimum numbers, and every option of them.

What forgers may try is in test_sign_forgery.py, checkpoints in test_checkpoint.py.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import pickle
import re
import struct
from pathlib import Path

import pytest
from conftest import Command
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from io_tools import SAMPLES, put_together, samples, take_apart
from test_sign_forgery import D, P, counted, decode, holds, signature_at, times

from pybfv import flow
from pybfv.errors import DataError, KeyRefusedError, MissingInputError, OutputError, UsageError
from pybfv.io import atomic_output, describe, read_partial
from pybfv.io.container import verify_file
from pybfv.io.secret_key import KeyPermissionWarning
from pybfv.io.sign import SigningKey, Trust, is_weak
from pybfv.io.signing_keys import read_signing_key, read_trust, read_verifying_key, write_signing_pair

SIGNED = ("signed.bfvc", "signed.bfvp", "signed.bfvr")
SIGNER = samples.signing_key().signer


# ---- the samples by FORMAT.md alone


def test_the_second_implementation_knows_a_published_vector():
    """RFC 8032, section 7.1, test 1: the empty message."""
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
        "655141438e7a100b"
    )
    assert holds(public, signature, b"")
    assert not holds(public, signature, b"\0")


@pytest.mark.parametrize("name", SIGNED)
def test_signed_samples_by_the_document_alone(name):
    data = (SAMPLES / name).read_bytes()
    _, records = take_apart(data)
    assert [tag for tag, _ in records[-2:]] == [b"SIGN", b"END "]
    header, mark, end = json.loads(records[0][1]), records[-2][1], records[-1][1]
    message = b"pybfv signed file 1\0" + hashlib.sha256(data[: -48 - 80]).digest() + end[8:]
    assert len(message) == 76
    assert holds(bytes.fromhex(header["signer"]), mark, message)
    assert header["signer"] == SIGNER
    assert verify_file(SAMPLES / name, Trust([SIGNER])) == SIGNER
    if name == "signed.bfvp":
        assert (header["signed"], header["verified"]) == (2, True)
        tags = [tag for tag, _ in records]
        named = records[tags.index(b"SGNR")][1].hex()
        assert tags.index(b"SGNR") == tags.index(b"CIDS") + 1
        assert (named[:64], named[64:]) == read_partial(SAMPLES / name).signers
        assert named[64:] == SIGNER


def test_the_sample_of_a_verifying_key():
    assert read_verifying_key(SAMPLES / "verify.key") == SIGNER
    body = "".join((SAMPLES / "verify.key").read_text().splitlines()[1:-1])
    assert base64.b64decode(body)[-32:].hex() == SIGNER


# ---- inspect of a file on disk, which reads no contents


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        describe(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", SIGNED)
def test_inspect_checks_the_record_of_the_signature(name, tmp_path):
    data, path = (SAMPLES / name).read_bytes(), tmp_path / name
    assert describe(SAMPLES / name)["signer"] == SIGNER
    for at in range(len(data) - 48 - 80, len(data)):
        refused(path, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
    number, records = take_apart(data)
    at = signature_at(records)
    mark, rest = records[at], records[:at] + records[at + 1 :]
    forged = {
        "gone": rest,
        "twice": [*records[:at], mark, *records[at:]],
        "early": [*rest[: at - 1], mark, *rest[at - 1 :]],
        "short": [*records[:at], (b"SIGN", mark[1][:63]), records[-1]],
        "long": [*records[:at], (b"SIGN", mark[1] + b"\0"), records[-1]],
        "another tag": [*records[:at], (b"SIGM", mark[1]), records[-1]],
        "nothing else": [records[0], records[1], records[-1]],
    }
    for why, changed in forged.items():
        assert refused(path, put_together(number, counted(changed))), why
    bad = struct.pack("<Q", len(records)) + records[-1][1][8:]
    refused(path, put_together(number, [*records[:-1], (b"END ", bad)]))


# ---- keys


def test_keys_round_trip_and_show_nothing(tmp_path):
    key = SigningKey.generate()
    assert write_signing_pair(tmp_path / "me", key) == (str(tmp_path / "me/sign.key"), str(tmp_path / "me/verify.key"))
    assert (tmp_path / "me/sign.key").stat().st_mode & 0o777 == 0o600
    again = read_signing_key(tmp_path / "me/sign.key")
    assert read_verifying_key(tmp_path / "me/verify.key") == key.signer == again.signer
    assert again.sign(b"x") == key.sign(b"x")
    assert key.signer in repr(key)
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(KeyRefusedError, match="never pickled or copied"):
            spread(key)
    before = (tmp_path / "me/sign.key").read_bytes()
    with pytest.raises(OutputError, match=r"sign.key exists; keys are never overwritten"):
        write_signing_pair(tmp_path / "me", SigningKey.generate())
    assert (tmp_path / "me/sign.key").read_bytes() == before


def test_a_pair_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = tmp_path / "me"
    folder.mkdir()
    (folder / "verify.key").write_text("somebody's")
    with pytest.raises(OutputError, match=r"verify.key exists without its sign.key \(if an interrupted run left it"):
        write_signing_pair(folder, SigningKey.generate())
    assert sorted(os.listdir(folder)) == ["verify.key"]
    (folder / "verify.key").unlink()
    folder.rmdir()
    # the second name can't be given: nothing is left, not even the folder
    real, named = os.link, []

    def link(source, name, **options):
        named.append(os.path.basename(name))
        if len(named) == 2:
            raise OSError(28, "No space left on device")
        return real(source, name, **options)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OutputError, match=r"sign.key can't be written"):
        write_signing_pair(folder, SigningKey.generate())
    assert named == ["verify.key", "sign.key"]
    assert not folder.exists()


def test_what_is_no_key_is_refused(tmp_path):
    key = SigningKey.generate()
    sign, verify = write_signing_pair(tmp_path / "me", key)
    (tmp_path / "link").symlink_to(sign)
    other = generate_private_key(SECP256R1())
    raw = Ed25519PrivateKey.generate()
    files = {
        "ec.key": other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "ec.pub": other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "locked": raw.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")),
        "long": b"-----BEGIN PRIVATE KEY-----\n" + bytes(1 << 14),
        "torn": key.private_pem()[:60],
        "torn.pub": key.public_pem()[:60],
        "empty": b"",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    for name, why in {
        "link": "symbolic link", "me/verify.key": "not a signing key", "ec.key": "not an Ed25519 key",
        "locked": "protected by a passphrase", "long": "over 16384",
        "torn": "not a signing key", "empty": "not a",
    }.items():  # fmt: skip
        with pytest.raises(KeyRefusedError, match=why):
            read_signing_key(tmp_path / name)
    for name, why in {
        "me/sign.key": "stays with its holder", "ec.pub": "not an Ed25519 key", "torn.pub": "not a verifying key",
        "locked": "stays with its holder", "empty": "not a verifying key",
    }.items():  # fmt: skip
        with pytest.raises(KeyRefusedError, match=why):
            read_verifying_key(tmp_path / name)
    os.chmod(sign, 0o644)
    with pytest.warns(KeyPermissionWarning, match="chmod 600"):
        read_signing_key(sign)
    assert read_trust([verify]).signers == {key.signer}


def weak_names() -> list[str]:
    """The points whose eightfold is the neutral one, found by the curve's arithmetic, and their other encodings."""

    # of order 8: d y^4 + 2 y^2 = 1, so y^2 = (-1 +- sqrt(1 + d)) / d
    def root(square: int) -> int | None:
        x = pow(square, (P + 3) // 8, P)
        x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
        return x if x * x % P == square else None

    half = root((1 + D) % P)
    assert half is not None
    ys = {0, 1, P - 1}
    for sign in (1, -1):
        y = root((sign * half - 1) * pow(D, -1, P) % P)
        if y is not None:
            ys |= {y, P - y}
    assert len(ys) == 5
    encodings = [y | odd << 255 for y in [*sorted(ys), P, P + 1] for odd in (0, 1)]
    return [y.to_bytes(32, "little").hex() for y in encodings]


def test_keys_under_which_anybody_signs_are_refused(tmp_path):
    names = weak_names()
    assert all(is_weak(name) for name in names)
    for name in names:
        y = int.from_bytes(bytes.fromhex(name), "little") & (1 << 255) - 1
        if y not in (1, P - 1) and y < P:  # those have one x, whose other sign is no point
            assert times(8, decode(bytes.fromhex(name))) == (0, 1)
        with pytest.raises(DataError, match="anybody can sign"):
            Trust([SIGNER, name])
        try:
            pem = Ed25519PublicKey.from_public_bytes(bytes.fromhex(name)).public_bytes(
                Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
            )
        except ValueError:  # the library refuses it first
            continue
        (tmp_path / "verify.key").write_bytes(pem)
        with pytest.raises(KeyRefusedError):
            read_verifying_key(tmp_path / "verify.key")
    assert not any(is_weak(SigningKey.generate().signer) for _ in range(20))
    assert not is_weak(SIGNER)


def test_trust(tmp_path):
    one, two = SigningKey.generate(), SigningKey.generate()
    for name, key in (("a.key", one), ("b.pem", two)):
        (tmp_path / name).write_bytes(key.public_pem())
    (tmp_path / "note.txt").write_text("no key")
    assert read_trust([tmp_path]).signers == {one.signer, two.signer}
    assert read_trust([tmp_path / "a.key"]).signers == {one.signer}
    (tmp_path / "none").mkdir()
    with pytest.raises(MissingInputError, match="holds no verifying keys"):
        read_trust([tmp_path / "none"])
    for wrong in ([], ["0" * 63], ["G" * 64], [SIGNER.upper()], [7]):
        with pytest.raises(DataError):
            Trust(wrong)


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY", "RSA PRIVATE KEY"])
@pytest.mark.parametrize("before", ["", "\n", "Bag Attributes: a line that is before it, as some programs write\n"])
def test_no_output_takes_the_place_of_a_private_key(kind, before, tmp_path):
    path = tmp_path / "mine"
    text = f"{before}-----BEGIN {kind}-----\nMC4CAQAwBQ\n-----END {kind}-----\n"
    path.write_text(text)
    with pytest.raises(OutputError, match="a secret key, which is never overwritten"), atomic_output(path, force=True):
        pass
    assert path.read_text() == text
    path.write_text(text.replace("PRIVATE", "PUBLIC"))
    with atomic_output(path, force=True) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"


# ---- the command line


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of at most five contributions, its keys, signing pairs a, b, c, and contributions signed and not."""
    folder = tmp_path_factory.mktemp("signed")
    options = {"max_rows": 100, "max_contributions": 5, "set_name": "insecure_n64_q214", "insecure": True}
    table = {"x": [1, 2, 5]}
    for name, least in (("study", 1), ("three", 3)):
        study = flow.plan(table, "mean:x", min_contributors=least, **options).study
        flow.write_study(study, str(folder / f"{name}.json"))
    study = flow.load_study(str(folder / "study.json"))
    secret, public = flow.keygen(study)
    flow.write_keys(secret, public, str(folder / "keys"))
    (folder / "x.csv").write_text("x\n1\n2\n5\n")
    (folder / "trusted").mkdir()
    for name in "abc":
        key = SigningKey.generate()
        write_signing_pair(folder / name, key)
        flow.encrypt(study, table, public, str(folder / f"{name}.bfvc"), sign=key)
        if name != "c":
            (folder / "trusted" / f"{name}.key").write_bytes(key.public_pem())
    flow.encrypt(study, table, public, str(folder / "bare.bfvc"))
    flow.encrypt(study, table, public, str(folder / "again.bfvc"), sign=read_signing_key(folder / "a" / "sign.key"))
    bad = bytearray((folder / "b.bfvc").read_bytes())
    number, records = take_apart(bytes(bad))
    at = signature_at(records)
    flipped = bytes([records[at][1][0] ^ 1]) + records[at][1][1:]
    (folder / "forged.bfvc").write_bytes(put_together(number, [*records[:at], (b"SIGN", flipped), records[-1]]))
    return folder


@pytest.fixture
def run(made: Path) -> Command:
    return Command(made)


def test_signkey(pybfv: Command) -> None:
    assert pybfv.ok("signkey", "-o", "me") == ""
    assert sorted(os.listdir(pybfv.folder / "me")) == ["sign.key", "verify.key"]
    assert "never overwritten" in pybfv.refused(73, "signkey", "-o", "me")
    (pybfv.folder / "file").write_text("")
    pybfv.refused(73, "signkey", "-o", "file")
    pybfv.refused(2, "signkey")


def test_a_whole_signed_job(run: Command, made: Path) -> None:
    key = ["--key", "keys/public.key"]
    run.ok("encrypt", "study.json", "x.csv", *key, "--sign", "c/sign.key", "-o", "s.bfvc")
    trust = ["--require-signature", "trusted", "--require-signature", "c/verify.key"]
    run.ok("compute", "a.bfvc", "b.bfvc", *key, *trust, "--sign", "c/sign.key", "-o", "1.bfvr")
    run.ok("compute", "a.bfvc", "s.bfvc", *trust, "--partial", "--sign", "a/sign.key", "-o", "1.bfvp")
    run.ok("compute", "b.bfvc", *trust, "--partial", "--sign", "b/sign.key", "-o", "2.bfvp")
    one = read_partial(made / "1.bfvp")
    assert one.verified
    assert set(one.signers) == {read_verifying_key(made / n / "verify.key") for n in "ac"}
    least = ["--min-contributors", "3"]
    run.ok("combine", "1.bfvp", "2.bfvp", *key, *trust, *least, "--sign", "c/sign.key", "-o", "2.bfvr")
    for name, count in (("1.bfvr", "2"), ("2.bfvr", "3")):
        secret = ["--key", "keys/secret.key", "--require-signature", "c/verify.key", "--min-contributors", count]
        assert "mean x = 2.6666666666666665" in run.ok("decrypt", name, *secret)
    found = json.loads(run.ok("inspect", "2.bfvr", "--json"))
    assert (found["signer"], found["signature"]) == (read_verifying_key(made / "c" / "verify.key"), "not checked")
    found = json.loads(run.ok("inspect", "2.bfvr", "--json", "--require-signature", "c/verify.key"))
    assert found["signature"] == "good"
    assert "signature" not in json.loads(run.ok("inspect", "bare.bfvc", "--json"))
    for name in ("s.bfvc", "1.bfvr", "1.bfvp", "2.bfvp", "2.bfvr"):
        (made / name).unlink()


def test_every_refusal_leaves_nothing(run: Command, made: Path) -> None:
    flow.compute_to_partial([str(made / "a.bfvc")], str(made / "p.bfvp"))
    key, trust = ["--key", "keys/public.key"], ["--require-signature", "trusted"]
    stranger = read_verifying_key(made / "c" / "verify.key")
    for partly in ([], ["--partial"]):
        compute = [*key, *trust, *partly, "-o", "new"]
        said = run.refused(65, "compute", "a.bfvc", "bare.bfvc", *compute)
        assert "bare.bfvc is not signed" in said
        said = run.refused(65, "compute", "a.bfvc", "c.bfvc", *compute)
        assert "c.bfvc" in said
        assert stranger in said
        assert "forged.bfvc has a wrong signature" in run.refused(65, "compute", "a.bfvc", "forged.bfvc", *compute)
        said = run.refused(65, "compute", "a.bfvc", "again.bfvc", *partly, *key, "-o", "new")
        assert "again.bfvc" in said
        assert "of whom a.bfvc holds one already" in said
    said = run.refused(65, "combine", "p.bfvp", *key, *trust, "-o", "new")
    assert "p.bfvp is not signed" in said
    flow.compute_to_partial([str(made / "again.bfvc")], str(made / "q.bfvp"))
    assert "count each contributor once" in run.refused(65, "combine", "p.bfvp", "q.bfvp", *key, "-o", "new")
    run.ok("compute", "a.bfvc", *key, "-o", "r.bfvr")
    secret = ["--key", "keys/secret.key"]
    assert "r.bfvr is not signed" in run.refused(65, "decrypt", "r.bfvr", *secret, *trust)
    assert "forged.bfvc has a wrong" in run.refused(65, "inspect", "forged.bfvc", *trust)
    run.ok("inspect", "forged.bfvc")
    run.refused(65, "inspect", "bare.bfvc", *trust)
    run.refused(2, "inspect", "-", *trust)
    encrypt = ["encrypt", "study.json", "x.csv", *key, "-o", "new"]
    assert "verify.key is not a signing key" in run.refused(77, *encrypt, "--sign", "a/verify.key")
    assert "stays with its holder" in run.refused(77, "inspect", "a.bfvc", "--require-signature", "a/sign.key")
    run.refused(66, *encrypt, "--sign", "nobody.key")
    run.refused(66, "inspect", "a.bfvc", "--require-signature", "nobody.key")
    run.refused(77, "inspect", "a.bfvc", "--require-signature", "x.csv")
    assert "never overwritten" in run.refused(73, *encrypt[:-1], "a/sign.key", "--force")
    for name in ("p.bfvp", "q.bfvp", "r.bfvr"):
        (made / name).unlink()


def test_too_few_contributors(run: Command, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, few = ["--key", "keys/public.key"], ["--min-contributors", "3"]
    for partly in ([], ["--partial"]):
        said = run.refused(65, "compute", "a.bfvc", "b.bfvc", *key, *few, *partly, "-o", "new")
        assert "over 2 contribution(s), and --min-contributors asks for 3 at least" in said
    flow.compute_to_partial([str(made / n) for n in ("a.bfvc", "b.bfvc")], str(made / "p.bfvp"))
    assert "over 2 contribution(s)" in run.refused(65, "combine", "p.bfvp", *key, *few, "-o", "new")
    run.ok("combine", "p.bfvp", *key, "-o", "r.bfvr")
    assert "over 2 contribution(s)" in run.refused(65, "decrypt", "r.bfvr", "--key", "keys/secret.key", *few)
    run.refused(2, "decrypt", "r.bfvr", "--key", "keys/secret.key", "--min-contributors", "0")
    for name in ("p.bfvp", "r.bfvr"):
        (made / name).unlink()

    def no_work(*_):
        raise AssertionError("the files were read")

    monkeypatch.setattr(flow, "accumulate", no_work)
    for compute in (flow.compute, flow.compute_to_partial):
        with pytest.raises(DataError, match="asks for 3 at least"):
            compute([str(made / "a.bfvc")], str(made / "new"), min_contributors=3)


def test_a_study_asks_for_contributors(pybfv: Command, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, asking = (json.loads((made / f"{n}.json").read_text()) for n in ("study", "three"))
    assert asking == plain | {"min_contributors": 3}
    plan = ["plan", made / "x.csv", "--stat", "mean:x", "--bounds", "x=0:9", "--max-rows", "20"]
    plan += ["--max-contributions", "4"]
    assert re.search(r"^results +over 3 contributions at least$", pybfv.ok(*plan, "--min-contributors", "3"), re.M)
    assert "\nresults " not in pybfv.ok(*plan)
    for wrong in ("0", "5"):
        pybfv.refused(78, *plan, "--min-contributors", wrong)
    for name, least in (("study", 1), ("three", 3)):
        assert json.loads(pybfv.ok("inspect", made / f"{name}.json", "--json"))["min_contributors"] == least

    study = flow.load_study(str(made / "three.json"))
    secret, public = flow.keygen(study)
    files = [str(pybfv.folder / f"{k}.bfvc") for k in range(3)]
    for path in files:
        flow.encrypt(study, {"x": [1, 2, 5]}, public, path)
    out = str(pybfv.folder / "out")
    flow.compute_to_partial(files[:1], out)  # a partial may be of fewer
    with pytest.raises(DataError, match=r"1 contribution.*, and the study asks for 3"):
        flow.combine([out], out + "2", key=public)
    work = flow.accumulate.__globals__["_Work"]
    monkeypatch.setitem(flow.accumulate.__globals__, "_Work", lambda *_: pytest.fail("it began to compute"))
    with pytest.raises(DataError, match=r"2 contribution.*, and the study asks for 3"):
        flow.compute(files[:2], out + "2", key=public)
    monkeypatch.setitem(flow.accumulate.__globals__, "_Work", work)
    assert not os.path.exists(out + "2")
    result = flow.compute(files, out + "3", key=public)
    assert flow.decrypt(result, secret)["contributions"] == 3
    with pytest.raises(DataError, match="--min-contributors asks for 4"):
        flow.decrypt(result, secret, min_contributors=4)


def test_arguments_of_functions(made: Path) -> None:
    study = flow.load_study(str(made / "study.json"))
    public = flow.keygen(study)[1]
    with pytest.raises(UsageError, match="a SigningKey"):
        flow.encrypt(study, {"x": [1]}, public, str(made / "new"), sign="a/sign.key")
    for call in (flow.compute, flow.compute_to_partial, flow.combine):
        with pytest.raises(UsageError, match="a Trust"):
            call([str(made / "a.bfvc")], str(made / "new"), trust=[SIGNER])
    assert not (made / "new").exists()
