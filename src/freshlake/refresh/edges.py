"""What a compiled query reads, as edges of the graph; a definition that would read itself is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from freshlake.catalog.enums import SourceType
from freshlake.catalog.names import TableName
from freshlake.catalog.records import Dependency
from freshlake.catalog.store import Catalog
from freshlake.catalog.watching import Reader
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.current_time import NOW
from freshlake.schedule.graph import Graph


def edges_of(catalog: Catalog, compiled: CompiledQuery) -> tuple[Dependency, ...]:
    """One edge per source, with the columns that are read."""
    edges = []
    for source in compiled.sources:
        is_stream = source.key.startswith("st:")
        name = source.name or source.path
        if is_stream:
            name = str(catalog.get_by_id(int(source.key[3:])).full_name)
        edges.append(
            Dependency(
                source_key=source.key,
                source_type=_type_of(source.key),
                source_name=name.removeprefix("spark_catalog."),
                location=source.path if _type_of(source.key) is SourceType.TABLE else None,
                columns_used=source.fields,
            )
        )
    return tuple(edges)


def _type_of(source_key: str) -> SourceType:
    if source_key == NOW:
        return SourceType.TIME
    return SourceType.STREAM_TABLE if source_key.startswith("st:") else SourceType.TABLE


def graph(catalog: Catalog) -> Graph:
    """All stream tables with what they read, by full name."""
    return graph_of({reader.id: reader for reader in catalog.graph_since(None).tables})


def graph_of(readers: Mapping[int, Reader]) -> Graph:
    """The graph of stream tables by their ids."""
    return Graph.of({reader.name: _reads(reader, readers) for reader in readers.values()})


def _reads(reader: Reader, readers: Mapping[int, Reader]) -> Iterator[str]:
    for edge in reader.edges:
        if edge.stream_table_id is None:
            yield edge.source_name
        elif edge.stream_table_id in readers:
            yield readers[edge.stream_table_id].name


def check_acyclic(catalog: Catalog, target: TableName, edges: Sequence[Dependency]) -> None:
    """Raises CycleDetected when `target` would read itself through these edges."""
    reads = [e.source_name for e in edges if e.stream_table_id is not None]
    graph(catalog).with_table(str(target), reads).check()
