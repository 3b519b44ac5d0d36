"""Settings: where they come from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from freshlake.config import Settings, addresses, allowed
from freshlake.errors import InvalidSetting
from freshlake.service.settings import setting_infos

URLS = "a comma-separated list of http:// and https:// URLs without user name"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"FRESHLAKE_{name.upper()}", raising=False)


def write(lake: Path, text: str) -> None:
    (lake / "freshlake.toml").write_text(text, encoding="utf-8")


def test_defaults_hold_without_any_source(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    assert settings == Settings()
    assert settings.min_schedule_seconds == 60
    assert settings.max_consecutive_errors == 3
    assert settings.differential_max_change_ratio == 0.15
    assert settings.driver_result_bytes == 64 * 1024 * 1024


def test_connect_wins_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "min_schedule_seconds = 10\nlease_seconds = 10\nfold_after_refreshes = 10\n")
    monkeypatch.setenv("FRESHLAKE_LEASE_SECONDS", "20")
    monkeypatch.setenv("FRESHLAKE_FOLD_AFTER_REFRESHES", "20")
    settings = Settings.load(tmp_path, {"fold_after_refreshes": 30})
    assert settings.min_schedule_seconds == 10
    assert settings.lease_seconds == 20
    assert settings.fold_after_refreshes == 30


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().lease_seconds = 5  # type: ignore[misc]


@pytest.mark.parametrize("url", ["sqlite", "postgresql://h/d", "postgres://u:secret@h,i:1/d?sslmode=require"])
def test_the_catalog_is_embedded_or_a_url_whose_password_is_not_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 'catalog = "postgresql://file"')
    monkeypatch.setenv("FRESHLAKE_CATALOG", url)
    settings = Settings.load(tmp_path)
    assert settings.catalog == url
    assert "secret" not in repr(settings) + str(settings)


@pytest.mark.parametrize("url", ["", "sqlite:///secret", "mysql://u:secret@h/d", "postgresql+psycopg://u:secret@h", 7])
def test_another_catalog_is_refused_without_repeating_it(url: object) -> None:
    with pytest.raises(InvalidSetting, match="setting catalog has a value that is not allowed") as caught:
        Settings.load(None, {"catalog": url})
    assert caught.value.detail == "allowed is sqlite, or a URL that starts with postgresql://"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_described_and_has_a_range(name: str) -> None:
    assert Settings.model_fields[name].description
    words = ("a whole number from", "a number from", "one of", "true or false", "a comma-separated list", "sqlite")
    assert allowed(name).startswith(words)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("min_schedule_seconds", [1, 86_400]),
        ("max_consecutive_errors", [1, 100]),
        ("differential_max_change_ratio", [0, 0.0, 1, "0.5"]),
        ("log_level", ["debug", "error"]),
        ("alert_retention_days", [1, 3_650]),
        ("alert_webhooks", ["", " ", "http://127.0.0.1:8080/hook", "https://a.example/x?y=1, http://[::1]:80"]),
    ],
)
def test_the_whole_range_is_accepted(name: str, values: list[object]) -> None:
    for value in values:
        assert getattr(Settings.load(None, {name: value}), name) == type(getattr(Settings(), name))(value)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [
        ("min_schedule_seconds", 0, "a whole number from 1 to 86400"),
        ("min_schedule_seconds", 86_401, "a whole number from 1 to 86400"),
        ("min_schedule_seconds", "soon", "a whole number from 1 to 86400"),
        ("max_consecutive_errors", 101, "a whole number from 1 to 100"),
        ("differential_max_change_ratio", 1.5, "a number from 0 to 1"),
        ("differential_max_change_ratio", float("nan"), "a number from 0 to 1"),
        ("driver_result_bytes", 0, "a whole number from 1 to 2147483648"),
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("alert_retention_days", 0, "a whole number from 1 to 3650"),
        ("alert_webhooks", "file:///etc/passwd", URLS),
        ("alert_webhooks", "https://a.example, ftp://a.example", URLS),
        ("alert_webhooks", "a.example/hook", URLS),
        ("alert_webhooks", "http:///hook", URLS),
        ("alert_webhooks", "http://me:secret@a.example", URLS),
        ("alert_webhooks", "http://a.example:port", URLS),
        ("alert_webhooks", "http://[::1", URLS),
        ("alert_webhooks", "http://a.example/two words", URLS),
        ("alert_webhooks", "http://a.example/\nx", URLS),
        ("alert_webhooks", ["http://a.example"], URLS),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(name: str, value: object, range_: str) -> None:
    with pytest.raises(InvalidSetting, match=name) as caught:
        Settings.load(None, {name: value})
    assert caught.value.detail == f"allowed is {range_}"


def test_addresses_are_read_from_a_list() -> None:
    assert addresses(" http://a.example , ,https://b.example/x ") == ("http://a.example", "https://b.example/x")
    assert addresses("") == ()


def test_the_error_says_where_the_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "lease_seconds = 0")
    with pytest.raises(InvalidSetting, match=r"freshlake\.toml"):
        Settings.load(tmp_path)
    monkeypatch.setenv("FRESHLAKE_LEASE_SECONDS", "-1")
    with pytest.raises(InvalidSetting, match="the environment"):
        Settings.load(tmp_path)
    with pytest.raises(InvalidSetting, match="connect"):
        Settings.load(tmp_path, {"lease_seconds": 0})


def test_every_value_has_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "min_schedule_seconds = 10\nlease_seconds = 10\nfold_after_refreshes = 10\n")
    monkeypatch.setenv("FRESHLAKE_LEASE_SECONDS", "20")
    monkeypatch.setenv("FRESHLAKE_FOLD_AFTER_REFRESHES", "20")
    found = {info.name: info for info in setting_infos(Settings.load(tmp_path, {"fold_after_refreshes": 30}))}
    assert list(found) == list(Settings.model_fields)
    origins = ("min_schedule_seconds", "lease_seconds", "fold_after_refreshes", "enabled")
    assert [(found[name].value, found[name].origin) for name in origins] == [
        (10, "freshlake.toml"),
        (20, "the environment"),
        (30, "connect(settings=…)"),
        (True, "default"),
    ]
    assert (found["lease_seconds"].default, found["lease_seconds"].allowed) == (60, "a whole number from 1 to 3600")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("catalog", "sqlite", "sqlite"),
        ("catalog", "postgresql://u:secret@h,i:1/d?password=secret", "postgresql://h,i:1/…"),
        ("catalog", "postgres://u:se/secret@h/d", "(hidden)"),
        ("alert_webhooks", "https://a/x?t=secret, http://b:1/secret", "https://a/…, http://b:1/…"),
        ("alert_webhooks", "", ""),
    ],
)
def test_what_may_be_a_secret_is_not_shown(name: str, value: str, shown: str) -> None:
    infos = {info.name: info.value for info in setting_infos(Settings.load(None, {name: value}))}
    assert infos[name] == shown


def test_a_variable_that_is_no_setting_is_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("FRESHLAKE_LEESE_SECONDS", "FRESHLAKE_LEASE_SECONDS", "FRESHLAKE_LAKE", "FRESHLAKE_CACHE"):
        monkeypatch.setenv(name, "20")
    with caplog.at_level("WARNING", "freshlake"):
        Settings.load()
        Settings.load()
    ours = [record.getMessage() for record in caplog.records if "LEESE" in record.getMessage()]
    assert ours == ["the environment variable FRESHLAKE_LEESE_SECONDS is no setting and has no effect"]
    assert not [r for r in caplog.records if "FRESHLAKE_LEASE" in r.getMessage() or "FRESHLAKE_LAKE" in r.getMessage()]


def test_an_unknown_setting_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="min_shedule") as caught:
        Settings.load(tmp_path, {"min_shedule": 1})
    assert "min_schedule_seconds" in (caught.value.hint or "")
    write(tmp_path, "[scheduler]\nx = 1")
    with pytest.raises(InvalidSetting, match="unknown setting scheduler"):
        Settings.load(tmp_path)


@pytest.mark.parametrize("content", [b"lease_seconds = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "freshlake.toml").write_bytes(content)
    with pytest.raises(InvalidSetting, match="not valid TOML"):
        Settings.load(tmp_path)
