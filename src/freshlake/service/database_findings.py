"""What a person should know about source databases: gaps of capture, slots that keep much log, late deliveries."""

from __future__ import annotations

from collections.abc import Iterator

from freshlake.service.capture_report import CaptureReport
from freshlake.service.deliveries import Deliveries
from freshlake.service.report import Finding, Severity
from freshlake.sources.postgres.wal.slot import Level

DELIVERY_FAILED = "delivery-failed"
BUFFERS_PUBLISHED = "buffers-published"


def capture_findings(capture: CaptureReport) -> Iterator[Finding]:
    """One for each captured table, each slot and each database with which something is wrong."""
    tables, slots, published = capture.examined()
    for table in tables:
        if table.alert is not None:
            yield Finding(
                Severity.WARNING,
                table.alert,
                f"{table.source}.{table.source_table}",
                table.detail or "its changes are not captured",
                "refresh a stream table that reads it: the table is copied anew where that is needed",
            )
    for slot in slots:
        if slot.alert is not None:
            yield Finding(
                Severity.ERROR if slot.level == Level.CRITICAL else Severity.WARNING,
                slot.alert,
                slot.source,
                slot.detail or "its slot is not as it should be",
                f"refresh what reads {slot.source} more often, or drop the source",
            )
    for source, publications in published.items():
        yield Finding(
            Severity.WARNING,
            BUFFERS_PUBLISHED,
            source,
            f"publication {', '.join(publications)} has all tables, so subscribers get the buffers of Freshlake, too",
            f"publish schemas instead (FOR TABLES IN SCHEMA …), or capture {source} with cdc_mode wal",
        )


def delivery_findings(deliveries: Deliveries) -> Iterator[Finding]:
    """One for each delivery that failed."""
    for delivery in deliveries.list():
        if delivery.error is not None:
            yield Finding(
                Severity.WARNING,
                DELIVERY_FAILED,
                delivery.target,
                f"{delivery.attempts} deliveries of {delivery.stream_table} failed: {delivery.error}",
                f'correct the cause; then fl.deliver("{delivery.stream_table}", "{delivery.target}"), or wait',
            )
