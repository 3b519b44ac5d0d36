"""The calls of a lake that are about databases: sources, and deliveries into them."""

from __future__ import annotations

from collections.abc import Sequence

from freshlake.service.calls import Calls
from freshlake.service.capture_report import BufferInfo, CaptureReport, CdcHealth, CdcStatus, SlotInfo
from freshlake.service.deliveries import Deliveries, DeliveryInfo
from freshlake.service.sources import SourceDatabaseInfo, Sources


class SourceCalls(Calls):
    """What users call; a lake has them among its own."""

    _sources: Sources
    _deliveries: Deliveries
    _capture_report: CaptureReport

    def add_postgres(
        self,
        name: str,
        connection: str,
        *,
        schemas: Sequence[str] | None = None,
        tables: Sequence[str] | None = None,
        as_text: Sequence[str] | None = None,
        cdc_mode: str | None = None,
    ) -> SourceDatabaseInfo:
        """Let queries name tables of a PostgreSQL database, as `name.schema.table`.

        `connection` says where its address is kept: `env:VARIABLE`, `service:NAME` or `file:/path`.
        """
        return self._sources.add(name, connection, schemas, tables, as_text, cdc_mode)

    def alter_source(
        self, name: str, *, cdc_mode: str | None = None, as_text: Sequence[str] | None = None
    ) -> SourceDatabaseInfo:
        """Capture a source database by `trigger`, from its log (`wal`), or as Freshlake finds best (`auto`).

        With `as_text` these columns (`schema.table.column`), and no others, are taken as text.
        """
        return self._sources.alter(name, cdc_mode, as_text)

    def drop_source(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Forget a source database and remove what was installed in it."""
        self._sources.drop(name, if_exists=if_exists, cascade=cascade)

    def drop_all(self) -> list[str]:
        """Drop every stream table and refresh group, and forget every source database; returns the stream tables."""
        return list(self._sources.drop_all())

    def list_sources(self) -> list[SourceDatabaseInfo]:
        """The source databases."""
        return self._sources.list()

    def cdc_status(self) -> list[CdcStatus]:
        """Which stream table reads which captured table, and how that is captured; databases are not asked."""
        return self._capture_report.status()

    def check_cdc_health(self) -> list[CdcHealth]:
        """Whether what captures changes is as it should be, table by table."""
        return self._capture_report.health()

    def slot_health(self) -> list[SlotInfo]:
        """How much log the servers keep for the slots that source databases are read through."""
        return self._capture_report.slots()

    def change_buffer_sizes(self) -> list[BufferInfo]:
        """What waits in the buffers of triggers."""
        return self._capture_report.buffers()

    def deliver(self, name: str, to: str) -> DeliveryInfo:
        """Keep the published rows of a stream table in a table of a source database, too: `source.schema.table`.

        The table is made, and follows every refresh in one transaction with its version.
        """
        return self._deliveries.add(self._stream_table(name), to)

    def end_delivery(self, to: str, *, if_exists: bool = False) -> None:
        """Drop a delivered table; if its database does not answer now, as soon as it does."""
        self._deliveries.end(to, if_exists=if_exists)

    def deliveries(self) -> list[DeliveryInfo]:
        """Which stream tables are kept where, how far, and what went wrong."""
        return self._deliveries.list()
