"""Settings: `connect(settings=…)`, then `FRESHLAKE_<NAME>` in the environment, then the lake's `freshlake.toml`."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from freshlake.errors import InvalidSetting

SETTINGS_FILE = "freshlake.toml"
ENVIRONMENT_PREFIX = "FRESHLAKE_"
OTHER_VARIABLES = ("FRESHLAKE_LAKE", "FRESHLAKE_CACHE", "FRESHLAKE_DRIVER_MEMORY")
"""Variables of that prefix that are no settings."""
DEFAULT = "default"

_log = logging.getLogger("freshlake")
_warned: set[str] = set()
_MIB = 1024 * 1024


def addresses(text: str) -> tuple[str, ...]:
    """The URLs in a comma-separated list; raises ValueError for what is not an http or https address."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not all(map(_is_address, found)):
        raise ValueError("not an address")
    return found


def _is_address(url: str) -> bool:
    if not (url.isascii() and url.isprintable()) or " " in url:
        return False
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and parts.port != 0


def _addresses(text: str) -> str:
    addresses(text)
    return text


class Settings(BaseSettings):
    """What an operator may change; every value has a range and a reason."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, frozen=True, extra="forbid")
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    enabled: Annotated[
        bool, Field(description="Whether schedulers refresh on schedule; refreshes by hand are not affected.")
    ] = True
    scheduler_interval_ms: Annotated[
        int, Field(ge=100, le=60_000, description="How often a scheduler looks for stream tables that are due.")
    ] = 1_000
    parallel_refresh_mode: Annotated[
        Literal["off", "on"], Field(description="Whether a scheduler refreshes independent stream tables side by side.")
    ] = "on"
    max_concurrent_refreshes: Annotated[
        int, Field(ge=1, le=32, description="Most refreshes that one scheduler runs at a time.")
    ] = 4
    max_dynamic_refresh_workers: Annotated[
        int,
        Field(ge=0, le=1_024, description="Most refreshes that all daemons of an installation run together; 0 = any."),
    ] = 0
    worker_quota: Annotated[
        int, Field(ge=0, le=1_024, description="How many of those this lake is to have; 0 = an equal part.")
    ] = 0
    lazy_refresh_timeout: Annotated[
        float,
        Field(ge=0, le=3_600, description="How many seconds a read of a cold or frozen table waits for a refresh."),
    ] = 10.0
    aligned_schedules: Annotated[
        bool, Field(description="Whether intervals end at moments that tables of different schedules share.")
    ] = False
    auto_backoff: Annotated[bool, Field(description="Whether stream tables that fall behind get longer intervals.")] = (
        False
    )
    immediate_wait_seconds: Annotated[
        int, Field(ge=0, le=3_600, description="How long a write or a call by hand waits for what others work on.")
    ] = 30
    min_schedule_seconds: Annotated[
        int, Field(ge=1, le=86_400, description="Shortest schedule that create and alter accept.")
    ] = 60
    max_consecutive_errors: Annotated[
        int, Field(ge=1, le=100, description="Failed refreshes in a row before a table goes to ERROR.")
    ] = 3
    differential_max_change_ratio: Annotated[
        float, Field(ge=0, le=1, description="AUTO refreshes in full above this share of changed rows; 0 = never.")
    ] = 0.15
    cost_model_min_history: Annotated[
        int,
        Field(ge=1, le=1_000_000, description="Refreshes with data before their times decide instead of the share."),
    ] = 10
    cost_model_safety_margin: Annotated[
        float, Field(ge=0.1, le=1, description="FULL is chosen when its estimate is below this part of DIFFERENTIAL's.")
    ] = 0.8
    fold_after_refreshes: Annotated[
        int, Field(ge=1, le=10_000, description="Fold policy auto: fold after this many refreshes.")
    ] = 30
    fold_after_ratio: Annotated[
        float, Field(ge=0, le=1, description="Fold policy auto: fold when the log reaches this share of the base.")
    ] = 0.03
    driver_result_bytes: Annotated[
        int, Field(ge=1, le=2_048 * _MIB, description="Largest result that may come to the driver; more goes by Spark.")
    ] = 64 * _MIB
    driver_rows: Annotated[
        int, Field(ge=1, le=100_000_000, description="Most rows that may come to the driver; more goes by Spark.")
    ] = 1_000_000
    driver_cache_bytes: Annotated[
        int,
        Field(ge=0, le=65_536 * _MIB, description="Memory for columns that refreshes search for keys; 0 = keep none."),
    ] = 512 * _MIB
    lease_seconds: Annotated[
        int, Field(ge=1, le=3_600, description="How long a silent worker keeps a table before another may take it.")
    ] = 60
    log_retention_hours: Annotated[
        int, Field(ge=0, le=87_600, description="Shortest time that folded log versions are kept.")
    ] = 168
    reader_min_age_seconds: Annotated[
        int, Field(ge=0, le=604_800, description="Files younger than this are kept for running readers.")
    ] = 3_600
    history_retention_days: Annotated[
        int, Field(ge=1, le=36_500, description="How long refreshes are kept in the history.")
    ] = 90
    audit_interval_seconds: Annotated[
        int,
        Field(ge=0, le=2_592_000, description="How often a scheduler audits a stream table, one at a time; 0 = never."),
    ] = 3_600
    audit_max_rows: Annotated[
        int,
        Field(
            ge=1_000, le=1_000_000_000, description="Rows up to which an audit compares everything; beyond, some keys."
        ),
    ] = 1_000_000
    audit_repair: Annotated[
        bool, Field(description="Whether what an audit finds wrong is put right at once; if not, a person decides.")
    ] = True
    cdc_mode: Annotated[
        Literal["auto", "trigger", "wal"],
        Field(description="How a source database is captured that is added without a `cdc_mode` of its own."),
    ] = "auto"
    block_source_ddl: Annotated[
        bool, Field(description="Whether DDL that would change columns of a table that is read is refused.")
    ] = False
    wal_transition_timeout: Annotated[
        int,
        Field(ge=1, le=86_400, description="Seconds that a source database may take to go from triggers to its log."),
    ] = 300
    wal_min_changes_per_second: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="From so many changes of a source database on, `cdc_mode` auto uses its log; 0 = always.",
        ),
    ] = 1_000
    compact_threshold: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000_000,
            description="Changes that wait in a buffer of a source database before they are added up; 0 = never.",
        ),
    ] = 100_000
    slot_lag_warning_threshold_mb: Annotated[
        int,
        Field(ge=1, le=10_000_000, description="A server that keeps so much log for a slot is worth a warning."),
    ] = 100
    slot_lag_critical_threshold_mb: Annotated[
        int,
        Field(ge=1, le=10_000_000, description="A server that keeps so much log for a slot is in danger."),
    ] = 1_024
    alert_webhooks: Annotated[
        str,
        AfterValidator(_addresses),
        Field(
            description="URLs that every alert is posted to as JSON.",
            json_schema_extra={"allowed": "a comma-separated list of http:// and https:// URLs without user name"},
        ),
    ] = ""
    alert_retention_days: Annotated[
        int, Field(ge=1, le=3_650, description="How long alerts are kept in the catalog.")
    ] = 30
    catalog: Annotated[
        str,
        Field(
            pattern=r"^(sqlite$|postgres(ql)?://)",
            description="Where the catalog is: in the lake folder, or in a PostgreSQL server.",
            json_schema_extra={"allowed": "sqlite, or a URL that starts with postgresql://"},
            # it may hold a password
            repr=False,
        ),
    ] = "sqlite"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least severe message that is logged.")
    ] = "info"

    @property
    def silent_daemon_seconds(self) -> float:
        """How long a daemon may be silent before others take it for dead: as long as it keeps a table, or ten ticks."""
        return max(self.lease_seconds, self.scheduler_interval_ms / 100)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # load() merges the sources itself, because the lake's folder is known only there
        return (init_settings,)

    @classmethod
    def load(cls, lake: Path | str | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
        """The settings of a lake; raises InvalidSetting naming the setting, its origin and the allowed range."""
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for origin, part in (
            (SETTINGS_FILE, _from_file(lake)),
            ("the environment", EnvSettingsSource(cls)()),
            ("connect(settings=…)", dict(overrides or {})),
        ):
            values.update(part)
            origins.update(dict.fromkeys(part, origin))
        _warn_of_variables()
        try:
            found = cls(**values)
        except ValidationError as error:
            raise _invalid(error, values, origins) from None
        found._origins.update(origins)
        return found

    def origin(self, name: str) -> str:
        """Where the value of a setting comes from."""
        return self._origins.get(name, DEFAULT)


def allowed(name: str) -> str:
    """The allowed values of a setting, in words."""
    return _allowed(Settings.model_fields[name])


def shown_default(name: str) -> str:
    """The default of a setting; an empty text with quotes, since one would not see it."""
    return str(Settings.model_fields[name].default) or '""'


def _warn_of_variables() -> None:
    """A variable whose name is mistaken would have no effect without a word; said once."""
    settings = {ENVIRONMENT_PREFIX + name.upper() for name in Settings.model_fields}
    named = {name for name in os.environ if name.upper().startswith(ENVIRONMENT_PREFIX)}
    for name in sorted(n for n in named - _warned if n.upper() not in settings | set(OTHER_VARIABLES)):
        _warned.add(name)
        _log.warning("the environment variable %s is no setting and has no effect", name)


def _from_file(lake: Path | str | None) -> dict[str, Any]:
    path = Path(lake) / SETTINGS_FILE if lake is not None else None
    if path is None or not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{path} is not valid TOML", detail=str(error), hint="correct or remove the file"
        ) from None
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read", detail=error.strerror, hint="check its permissions") from None


def _invalid(error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> InvalidSetting:
    name = str(error.errors()[0]["loc"][0])
    origin = origins[name]
    if name not in Settings.model_fields:
        known = ", ".join(sorted(Settings.model_fields))
        return InvalidSetting(f"unknown setting {name} in {origin}", hint=f"the settings are: {known}")
    shown = f"the value {values[name]!r}" if Settings.model_fields[name].repr else "a value that is not allowed"
    return InvalidSetting(
        f"setting {name} has {shown} in {origin}",
        detail=f"allowed is {allowed(name)}",
        hint=f"correct it, or remove it to use the default {shown_default(name)}",
    )


def _allowed(field: FieldInfo) -> str:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(get_args(annotation))
    if annotation is bool:
        return "true or false"
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["allowed"])
    low = next(part.ge for part in field.metadata if hasattr(part, "ge"))
    high = next(part.le for part in field.metadata if hasattr(part, "le"))
    kind = "a whole number" if annotation is int else "a number"
    return f"{kind} from {low} to {high}"
