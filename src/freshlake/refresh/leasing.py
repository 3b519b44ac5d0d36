"""Holding leases: several or one, kept alive while work goes on, and given back at its end.

Whoever takes over a lease that was not given back first shuts its last holder out of the table's storage: that process
may only have been stopped, and go on later. A commit that it has already begun then fails, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from freshlake.catalog.owner import describe
from freshlake.catalog.records import Lease, StreamTable
from freshlake.catalog.store import Catalog
from freshlake.compiler.split import ROOT
from freshlake.errors import FreshlakeError, LeaseLost, RefreshInProgress, StorageCorrupt, StorageMissing
from freshlake.refresh.failing import fail_under, known
from freshlake.refresh.terms import Terms

if TYPE_CHECKING:
    from freshlake.refresh.engine import Engine

_log = logging.getLogger("freshlake.leases")
_POLL_SECONDS = 0.02


@contextmanager
def leased(
    engine: Engine, table_ids: Iterable[int], *, wait_seconds: float = 0.0, terms: Terms | None = None
) -> Iterator[dict[int, Lease]]:
    """The leases of all these tables, or none of them; always taken in one order, so nobody waits in a circle.

    Raises RefreshInProgress when another worker holds one of them for longer than `wait_seconds`. With `terms` they are
    taken for a refresh, and one that cannot be taken over from its last holder is a refresh that failed.
    """
    until = time.monotonic() + wait_seconds
    leases: dict[int, Lease] = {}
    with ExitStack() as held, _Keeper(engine.catalog, engine.settings.lease_seconds) as keeper:
        for table_id in sorted(table_ids):
            lease = _acquire(engine, table_id, until)
            # a lease is not given back while its last holder could still write: it runs out, and the next one tries
            _shut_out(engine, lease, terms)
            held.callback(engine.catalog.release_lease, lease)
            keeper.keep(lease)
            leases[table_id] = lease
        yield leases


def keep(engine: Engine, leases: Iterable[Lease]) -> None:
    """Make sure that these leases are still held; raises LeaseLost."""
    for lease in leases:
        engine.catalog.heartbeat_lease(lease, engine.settings.lease_seconds)


def _acquire(engine: Engine, table_id: int, until: float) -> Lease:
    while True:
        try:
            return engine.catalog.acquire_lease(table_id, engine.settings.lease_seconds)
        except RefreshInProgress:
            if time.monotonic() >= until:
                raise
            time.sleep(_POLL_SECONDS)


def _shut_out(engine: Engine, lease: Lease, terms: Terms | None) -> None:
    if lease.taken_from is None:
        return
    table = engine.catalog.get_by_id(lease.stream_table_id)
    _log.info("table %s: taken over from %s", table.full_name, describe(lease.taken_from))
    engine.reached("taken over")
    try:
        with known(table.full_name):
            _fence(engine, table, lease.epoch)
    except FreshlakeError as error:
        if terms is not None:
            fail_under(engine, lease, error, terms)
        raise
    engine.reached("fenced")


def _fence(engine: Engine, table: StreamTable, epoch: int) -> None:
    if not table.is_populated:
        return  # a load has a folder of its own
    for node_id in (ROOT, *table.nodes):
        with suppress(StorageMissing, StorageCorrupt):  # nobody writes into what cannot be opened
            engine.layout.node(table.storage_id, table.generation, node_id).fence(epoch)


class _Keeper:
    """Keeps leases alive while their work goes on."""

    def __init__(self, catalog: Catalog, seconds: float) -> None:
        self._catalog, self._seconds = catalog, seconds
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> _Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def keep(self, lease: Lease) -> None:
        with self._lock:
            self._leases[lease.stream_table_id] = lease
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="freshlake-leases", daemon=True)
            self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds / 3):
            with self._lock:
                leases = tuple(self._leases.values())
            for lease in leases:
                self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        try:
            self._catalog.heartbeat_lease(lease, self._seconds)
        except FreshlakeError as error:
            _log.warning("lease of table %s: %s", lease.stream_table_id, error.message)
            # every commit checks the lease, so a lost one fails there; a catalog that does not answer may do so later
            if isinstance(error, LeaseLost):
                with self._lock:
                    self._leases.pop(lease.stream_table_id, None)
