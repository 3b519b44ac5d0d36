"""References to databases: they name where an address is kept, and never hold or show one."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshlake.errors import ConnectionNotFound, DriverNotFound, FreshlakeError, InvalidConnection, SourceUnreachable
from freshlake.sources.postgres import connection
from freshlake.sources.postgres.reference import ConnectionReference, Keeper

ADDRESS = "postgresql://app:hunter2@db.example.org/shop"


def test_a_variable_leads_to_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DATABASE", f"{ADDRESS}\n")
    reference = ConnectionReference.parse("env:SHOP_DATABASE")
    assert reference == ConnectionReference(Keeper.ENVIRONMENT, "SHOP_DATABASE")
    assert reference.resolve() == ADDRESS


def test_a_file_leads_to_the_address(tmp_path: Path) -> None:
    secret = tmp_path / "shop"
    secret.write_text(f"  {ADDRESS}\n")
    assert ConnectionReference.parse(f"file:{secret}").resolve() == ADDRESS


def test_a_service_is_looked_up_by_the_client_library() -> None:
    assert ConnectionReference.parse("service:shop.eu-1").resolve() == "service=shop.eu-1"


def test_a_changed_secret_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = ConnectionReference.parse("env:SHOP_DATABASE")
    for address in ("postgresql://a", "postgresql://b"):
        monkeypatch.setenv("SHOP_DATABASE", address)
        assert reference.resolve() == address


@pytest.mark.parametrize("text", ["env:A", "service:shop", "file:/run/secrets/a b"])
def test_the_text_of_a_reference_is_the_reference(text: str) -> None:
    assert str(ConnectionReference.parse(f" {text} ")) == text


@pytest.mark.parametrize(
    "text",
    [
        ADDRESS,
        "host=db password=hunter2",
        "",
        "env:",
        "env:hunter2 x",
        "env:1A",
        "file:relative",
        "service:a b",
        "vault:a",
    ],
)
def test_what_is_not_a_reference_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(InvalidConnection) as refused:
        ConnectionReference.parse(text)
    assert "hunter2" not in str(refused.value)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConnectionNotFound, match="FRESHLAKE_NO_SUCH_VARIABLE"):
        ConnectionReference.parse("env:FRESHLAKE_NO_SUCH_VARIABLE").resolve()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectionNotFound, match="nothing") as missing:
        ConnectionReference.parse(f"file:{tmp_path}/nothing").resolve()
    assert missing.value.detail == "No such file or directory"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_file_without_an_address_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConnectionNotFound):
        ConnectionReference.parse(f"file:{tmp_path}/secret").resolve()


@pytest.mark.parametrize("address", ["postgresql://u:hunter2@[x/db", "password=hunter2 =", "hunter2"])
def test_an_address_that_cannot_be_read_is_not_repeated(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("SHOP_DATABASE", address)
    with pytest.raises(InvalidConnection) as refused:
        connection.connect(ConnectionReference.parse("env:SHOP_DATABASE"))
    assert "hunter2" not in _whole(refused.value)


def test_a_server_that_is_away_is_unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHOP_DATABASE", f"postgresql://u:hunter2@/db?host={tmp_path}")
    with pytest.raises(SourceUnreachable) as unreachable:
        connection.connect(ConnectionReference.parse("env:SHOP_DATABASE"))
    assert "hunter2" not in _whole(unreachable.value)


def test_an_unknown_service_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "services").write_text("[other]\nhost=/tmp\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    with pytest.raises(ConnectionNotFound, match="service"):
        connection.connect(ConnectionReference.parse("service:shop"))


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    monkeypatch.setenv("SHOP_DATABASE", ADDRESS)
    with pytest.raises(DriverNotFound, match=r"freshlake\[postgres\]"):
        connection.connect(ConnectionReference.parse("env:SHOP_DATABASE"))


def _whole(error: FreshlakeError) -> str:
    return f"{error} {error.to_dict()} {error.__cause__}"
