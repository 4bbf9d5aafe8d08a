"""Keys, published test vectors for the code that stores call, and key slots."""

import base64
import copy
import os
import pickle
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from factmem.encryption._ciphers import Aead, argon2id, canonical_base64, hkdf
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import KeyRequiredError, TamperedError, WrongKeyError
from tests.tables import table

VECTORS = files("cryptography_vectors")
STORE = "00" * 16
SECRET = bytes(range(32))


def vectors(*path: str) -> Iterator[dict[str, str]]:
    """Yield the numbered cases of a vector file, each with its section's parameters."""
    section: dict[str, str] = {}
    case: dict[str, str] = {}
    for line in VECTORS.joinpath(*path).read_text("utf-8").splitlines():
        name, _, value = line.strip().strip("[]").partition("=")
        if line.startswith("#") or not name:
            continue
        if line.startswith("[") or name.strip().upper() == "COUNT":
            if case:
                yield {**section, **case}
            case = {}
        if line.startswith("["):
            section[name.strip()] = value.strip()
        else:
            case[name.strip()] = value.strip()
    yield {**section, **case}


def test_aes_gcm_agrees_with_nist() -> None:
    """CAVP, 256-bit keys with the nonce and tag lengths of stores: all are opened or rejected."""
    opened = refused = 0
    for vector in vectors("ciphers", "AES", "GCM", "gcmDecrypt256.rsp"):
        if (vector["IVlen"], vector["Taglen"]) != ("96", "128"):
            continue
        key, nonce, aad = (bytes.fromhex(vector[name]) for name in ("Key", "IV", "AAD"))
        sealed = bytes.fromhex(vector["CT"] + vector["Tag"])
        if "FAIL" in vector:
            with pytest.raises(ValueError, match="does not verify"):
                Aead(key).open(nonce, sealed, aad)
            refused += 1
        else:
            plain = bytes.fromhex(vector["PT"])
            assert Aead(key).open(nonce, sealed, aad) == plain
            assert Aead(key).seal(nonce, plain, aad) == sealed
            opened += 1

    assert (opened, refused) == (184, 191)


@table("length", range(1, 8))
def test_bytes_have_one_spelling_in_base64(length: int) -> None:
    """Only the end is compared, so every other spelling must differ there or be invalid."""
    data = os.urandom(length)
    text = base64.b64encode(data)
    assert canonical_base64(text) == data
    others = [
        text[:at] + bytes([byte]) + text[at + 1 :] for at in range(len(text)) for byte in range(256)
    ]
    others += [text + end for end in (b"=", b"==", b"A", b"AAA=", b"\n")] + [
        text[:-1],
        b"\n" + text,
    ]
    for other in others:
        try:
            found = canonical_base64(other)
        except ValueError:
            continue
        assert base64.b64encode(found) == other


def test_hkdf_agrees_with_its_rfc() -> None:
    """RFC 5869, the cases with SHA-256."""
    count = 0
    for vector in vectors("KDF", "rfc-5869-HKDF-SHA256.txt"):
        key, salt, info = (bytes.fromhex(vector[name]) for name in ("IKM", "salt", "info"))
        assert hkdf(key, salt, info, int(vector["L"])).hex() == vector["OKM"]
        count += 1

    assert count == 3


def test_argon2id_agrees_with_its_rfc() -> None:
    """The vectors without secret and associated data, which stores do not use."""
    count = 0
    for vector in vectors("KDF", "argon2id.txt"):
        if "secret" in vector or "ad" in vector:
            continue
        derived = argon2id(
            bytes.fromhex(vector["pass"]),
            bytes.fromhex(vector["salt"]),
            int(vector["iter"]),
            int(vector["memcost"]),
            int(vector["lanes"]),
            length=int(vector["length"]),
        )
        assert derived.hex() == vector["output"]
        count += 1

    assert count >= 5


class TestKey:
    def test_it_survives_a_round_trip_as_base64(self) -> None:
        """The string in a secret store opens the files again."""
        key = Key.generate()

        assert Key.from_base64(key.to_base64()) == key
        assert Key.from_base64(key.to_base64().encode() + b"\n") == key
        assert len(key.to_base64()) == 44
        assert Key.generate() != key

    def test_standard_base64_is_accepted_too(self) -> None:
        """`openssl rand -base64 32` makes a key."""
        secret = b"\xfb\xff" * 16

        assert Key.from_base64(base64.b64encode(secret)) == Key(secret)

    @table("text", ["", "abc", "A" * 42 + "==", "A" * 60, "k\u00e9y", "A" * 43])
    def test_an_invalid_key_raises_without_showing_it(self, text: str) -> None:
        """The message describes a key, and does not contain the argument."""
        with pytest.raises(ValueError, match="44 characters as `factmem keys generate`") as caught:
            Key.from_base64(text)

        assert not text or text not in str(caught.value)

    @pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, "x" * 32])
    def test_a_key_has_32_bytes(self, secret: bytes) -> None:
        """A short key would be weak."""
        with pytest.raises(ValueError, match=r"32 bytes: use Key\.generate\(\)"):
            Key(secret)

    def test_it_is_never_printed(self) -> None:
        """It is not in a log, a traceback, a pickle or a copy."""
        key = Key(SECRET)
        encryptor = Aes256GCMEncryptor(key)

        shown = f"{key!r} {key} {encryptor!r} {encryptor}"
        assert key.to_base64() not in shown
        assert SECRET.hex() not in shown
        for keeper in (key, encryptor):
            for give_away in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled or copied"):
                    give_away(keeper)

    def test_it_is_not_hashable_and_equals_only_keys(self) -> None:
        """A hash in a table would reveal the key."""
        with pytest.raises(TypeError, match="unhashable"):
            hash(Key(SECRET))

        assert Key(SECRET) != SECRET

    def test_a_passphrase_is_normalised(self) -> None:
        """Keyboards may compose or decompose it; the key is the same."""
        composed = Key.from_passphrase("caf\u00e9 \uff21")

        assert composed == Key.from_passphrase("cafe\u0301 A")
        assert composed != Key.from_passphrase("cafe A")
        with pytest.raises(ValueError, match="has no base64: keep the passphrase"):
            composed.to_base64()

    def test_a_passphrase_must_not_be_empty(self) -> None:
        """An empty one is a configuration error."""
        with pytest.raises(ValueError, match="passphrase must not be empty"):
            Key.from_passphrase(" ")

    def test_it_comes_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If it is missing or wrong, the error names the variable, and never shows the value."""
        monkeypatch.setenv("SOME_KEY", Key(SECRET).to_base64())
        assert Key.from_env("SOME_KEY") == Key(SECRET)

        monkeypatch.setenv("SOME_KEY", "hunter2")
        with pytest.raises(ValueError, match="'SOME_KEY'") as caught:
            Key.from_env("SOME_KEY")
        assert "hunter2" not in str(caught.value)

        monkeypatch.delenv("SOME_KEY")
        with pytest.raises(KeyRequiredError, match="'SOME_KEY' is not set"):
            Key.from_env("SOME_KEY")

    def test_it_comes_from_a_private_file(self, tmp_path: Path) -> None:
        """A file that others can read is refused."""
        file = tmp_path / "key"
        for missing in (file, tmp_path):
            with pytest.raises(KeyRequiredError, match="no key file"):
                Key.from_file(missing)
        file.write_text(Key(SECRET).to_base64() + "\n")

        file.chmod(0o640)
        with pytest.raises(PermissionError, match="chmod 600"):
            Key.from_file(file)
        file.chmod(0o600)
        assert Key.from_file(file) == Key(SECRET)

    def test_a_file_that_nobody_can_write_is_a_mounted_secret(self, tmp_path: Path) -> None:
        """Docker mounts secrets with mode 0444 and Kubernetes with 0440, which is fixed."""
        file = tmp_path / "factmem"
        file.write_text(Key(SECRET).to_base64())
        for mode in (0o400, 0o440, 0o444, 0o600):
            file.chmod(mode)
            assert Key.from_file(file) == Key(SECRET)
        for mode in (0o640, 0o644, 0o460):
            file.chmod(mode)
            with pytest.raises(PermissionError, match="chmod 600"):
                Key.from_file(file)

    def test_a_machine_without_a_keyring_is_an_error_of_the_library(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The package raises errors of its own, which no caller of this library expects."""

        def fail(*_: str) -> str:
            raise RuntimeError("No recommended backend was available for factmem agent")

        monkeypatch.setattr(keyring, "get_password", fail)
        with pytest.raises(KeyRequiredError, match=r"cannot be used \(RuntimeError\)"):
            Key.from_keyring("factmem", "agent", create=True)

    def test_it_comes_from_the_keyring(self) -> None:
        """It is created once on request, and then stays."""
        before = keyring.get_keyring()
        keyring.set_keyring(_MemoryKeyring())
        try:
            with pytest.raises(KeyRequiredError, match="pass create=True"):
                Key.from_keyring("factmem", "agent")
            key = Key.from_keyring("factmem", "agent", create=True)

            assert Key.from_keyring("factmem", "agent") == key
            assert Key.from_keyring("factmem", "agent", create=True) == key
        finally:
            keyring.set_keyring(before)


class _MemoryKeyring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self._kept[service, username]


class TestSlots:
    def test_any_of_several_keys_opens_a_slot(self) -> None:
        """During a change of keys both are configured."""
        old, new = Key.generate(), Key.generate()
        slot = Aes256GCMEncryptor(old).wrap(b"ring", STORE)

        assert Aes256GCMEncryptor(new, old).unwrap([slot], STORE).ring == b"ring"
        with pytest.raises(WrongKeyError, match="pass the key that the store was created with"):
            Aes256GCMEncryptor(new).unwrap([slot], STORE)

    def test_a_passphrase_opens_only_its_slot(self) -> None:
        """Cost and salt come from the slot."""
        slot = Aes256GCMEncryptor(Key.from_passphrase("horse")).wrap(b"ring", STORE)

        opened = Aes256GCMEncryptor(Key.from_passphrase("horse"))
        assert opened.unwrap([slot], STORE).ring == b"ring"
        with pytest.raises(WrongKeyError):
            Aes256GCMEncryptor(Key.from_passphrase("hors")).unwrap([slot], STORE)
        with pytest.raises(WrongKeyError):
            Aes256GCMEncryptor(Key.generate()).unwrap([slot], STORE)

    def test_a_slot_belongs_to_its_store(self) -> None:
        """A slot copied from another store opens nothing."""
        encryptor = Aes256GCMEncryptor(Key.generate())
        slot = encryptor.wrap(b"ring", STORE)

        with pytest.raises(WrongKeyError):
            encryptor.unwrap([slot], "11" * 16)

    @pytest.mark.parametrize("change", ["wrap", "spelling"])
    def test_a_changed_slot_differs_from_a_wrong_key(self, change: str) -> None:
        """The first needs a backup, the second the right key."""
        encryptor = Aes256GCMEncryptor(Key.generate())
        slot = encryptor.wrap(b"ring", STORE)
        wrapped = bytearray(base64.b64decode(slot["wrap"]))
        wrapped[20] ^= 1
        slot["wrap"] = (
            base64.b64encode(wrapped).decode() if change == "wrap" else "!" + slot["wrap"]
        )

        with pytest.raises(TamperedError, match="Restore it from a backup"):
            encryptor.unwrap([slot], STORE)

    @pytest.mark.parametrize(
        "change",
        [{"m": 1 << 40}, {"t": 0}, {"t": 1 << 20}, {"p": 0}, {"name": "md5"}, {"salt": "?"}],
    )
    def test_a_slot_with_excessive_cost_is_refused(self, change: dict[str, object]) -> None:
        """An attacker who can edit the file must not be able to request a terabyte."""
        encryptor = Aes256GCMEncryptor(Key.from_passphrase("horse"))
        slot = encryptor.wrap(b"ring", STORE)
        slot["kdf"].update(change)  # type: ignore[typeddict-item]

        with pytest.raises(TamperedError, match="no version of factmem wrote"):
            encryptor.unwrap([slot], STORE)


def test_the_number_of_passphrase_slots_is_limited() -> None:
    """Each takes up to seconds, and an attacker who can write the store could add thousands."""
    encryption = Aes256GCMEncryptor(Key.from_passphrase("a horse and a battery"))
    slot: Any = {"kid": "0" * 16, "wrap": "", "kdf": {"name": "argon2id"}}

    with pytest.raises(TamperedError, match="slots of passphrases"):
        encryption.unwrap([slot] * 33, STORE)
