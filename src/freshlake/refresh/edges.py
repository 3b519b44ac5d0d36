"""What a compiled query reads, as edges of the graph; a definition that would read itself is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from freshlake.catalog.enums import SourceType
from freshlake.catalog.names import TableName
from freshlake.catalog.records import DATABASE, STREAM_TABLE, Dependency
from freshlake.catalog.store import Catalog
from freshlake.catalog.watching import Reader
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.current_time import NOW
from freshlake.schedule.graph import Graph


def edges_of(catalog: Catalog, compiled: CompiledQuery) -> tuple[Dependency, ...]:
    """One edge per source, with the columns that are read."""
    edges = []
    for source in compiled.sources:
        kind = _type_of(source.key)
        name = source.name or source.path
        if kind is SourceType.STREAM_TABLE:
            name = str(catalog.get_by_id(int(source.key.removeprefix(STREAM_TABLE))).full_name)
        if kind is SourceType.POSTGRES:
            name = source.key.removeprefix(DATABASE)
        edges.append(
            Dependency(
                source_key=source.key,
                source_type=kind,
                source_name=name.removeprefix("spark_catalog."),
                location=source.path if kind in (SourceType.TABLE, SourceType.POSTGRES) else None,
                columns_used=source.fields,
            )
        )
    return tuple(edges)


def _type_of(source_key: str) -> SourceType:
    if source_key == NOW:
        return SourceType.TIME
    if source_key.startswith(DATABASE):
        return SourceType.POSTGRES
    return SourceType.STREAM_TABLE if source_key.startswith(STREAM_TABLE) else SourceType.TABLE


def graph(catalog: Catalog) -> Graph:
    """All stream tables with what they read, by full name."""
    return graph_of({reader.id: reader for reader in catalog.graph_since(None).tables})


def graph_of(readers: Mapping[int, Reader]) -> Graph:
    """The graph of stream tables by their ids."""
    edges = [edge for reader in readers.values() for edge in reader.edges]
    databases = {edge.source_key for edge in edges if edge.source_type is SourceType.POSTGRES}
    return Graph.of({reader.name: _reads(reader, readers) for reader in readers.values()}, databases)


def _reads(reader: Reader, readers: Mapping[int, Reader]) -> Iterator[str]:
    """The nodes that edges lead to: none if that was dropped, of a mirror its table and its database."""
    for edge in reader.edges:
        if edge.source_type is SourceType.POSTGRES:
            yield from (edge.source_key, edge.location or edge.source_name)
        elif edge.stream_table_id is None:
            yield edge.source_name
        elif edge.stream_table_id in readers:
            yield readers[edge.stream_table_id].name


def mirrors(names: Iterable[str]) -> tuple[frozenset[str], ...]:
    """The mirrors of each source database, which are refreshed and published together."""
    found: dict[str, set[str]] = {}
    for name in names:
        database = TableName.parse(name).database
        if database is not None:
            found.setdefault(database, set()).add(name)
    return tuple(frozenset(members) for members in found.values())


def check_acyclic(catalog: Catalog, target: TableName, edges: Sequence[Dependency]) -> None:
    """Raises CycleDetected when `target` would read itself through these edges."""
    reads = [e.source_name for e in edges if e.stream_table_id is not None]
    graph(catalog).with_table(str(target), reads).check()


def tracked(catalog: Catalog, names: Sequence[str]) -> list[Dependency]:
    """The plain tables among these names and paths that stream tables read."""
    wanted, found = set(names), {}
    for edges in catalog.all_dependencies().values():
        for edge in edges:
            if edge.stream_table_id is None and wanted & {edge.source_name, edge.location or ""}:
                found[edge.source_key] = edge
    return list(found.values())
