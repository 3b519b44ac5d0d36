"""Damage done to stored tables behind Freshlake's back, in ways that look like Freshlake's own work."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from freshlake.catalog.records import StreamTable
from freshlake.lake import Freshlake
from freshlake.refresh.recover import held
from freshlake.storage.certificate import Note, NoteKind
from freshlake.storage.commits import commit_properties
from freshlake.storage.layout import BASE, FoldPoint
from freshlake.storage.log import Log
from freshlake.storage.relation import WEIGHT, Relation, arrow_schema, weighted
from freshlake.storage.table import ChangeLogged


def append_to_log(fl: Freshlake, name: str, where: str, weight: int = 1, *, node: str = "", **values: str) -> None:
    """A version with changes that no refresh computed: rows of the table that meet a condition, with other values.

    Its certificate is as good as that of a process that died before the catalog knew, so the next one adopts it.
    """
    table, storage = _storage(fl, name, node)
    found = _rows(fl, table, storage, node).where(where)
    for column, value in values.items():
        found = found.withColumn(column, F.expr(value).cast(found.schema[column].dataType))
    assert found.count(), "no such row"
    schema = weighted(storage.schema)
    rows = found.withColumn(WEIGHT, F.lit(weight).cast("bigint")).toArrow().cast(arrow_schema(schema))
    _commit(fl, table, storage, Relation.of_arrow(rows, schema, insert_only=False), node)
    with held(fl._engine, table.id, 10) as (lease, adopted):
        assert adopted.version == table.version + 1
        fl._engine.catalog.publish([lease])


def change_base(fl: Freshlake, name: str, where: str, *, node: str = "", folded: bool = True, **values: str) -> None:
    """What a fold that lost rows, or wrote them with other values, would leave behind."""
    if folded:
        fl.fold(name)
    table, storage = _storage(fl, name, node)
    point, path = _point(table, node), f"{storage.path}/{BASE}"
    before = fl.spark.read.format("delta").option("versionAsOf", point.base_version).load(path)
    after = before.where(f"NOT coalesce({where}, false)")
    if values:
        kinds = {field.name: field.dataType for field in before.schema}
        changed = [F.expr(values.get(c, f"`{c}`")).cast(kinds[c]).alias(c) for c in before.columns]
        after = after.unionAll(before.where(where).select(*changed))
    assert before.exceptAll(after).count(), "no such row"
    note = Note(NoteKind.FOLD, Log(storage.path).last_certificate(), point.folded_version, point.base_version)
    rows = after.toArrow().cast(before.limit(0).toArrow().schema)
    write_deltalake(path, rows, mode="overwrite", commit_properties=commit_properties(note))
    lease = fl._engine.catalog.acquire_lease(table.id, 60)
    moved = {"folded_version": point.folded_version, "base_version": DeltaTable(path).version()}
    fl._engine.catalog.add_fold(table.id, lease.epoch, generation=table.generation, node=node, **moved)
    fl._engine.catalog.release_lease(lease)


def _storage(fl: Freshlake, name: str, node: str) -> tuple[StreamTable, ChangeLogged]:
    table = fl._engine.catalog.get(f"default.{name}")
    return table, fl._engine.layout.node(table.storage_id, table.generation, node)


def _rows(fl: Freshlake, table: StreamTable, storage: ChangeLogged, node: str) -> DataFrame:
    """Everything that is stored, hidden columns too."""
    return storage.read(fl.spark, table.nodes[node].version if node else table.version, _point(table, node))


def _point(table: StreamTable, node: str) -> FoldPoint:
    at = table.nodes[node] if node else None
    base = at.base_version if at else table.fold_base_version
    folded = at.folded_version if at else table.folded_version
    assert base is not None
    assert folded is not None
    return FoldPoint(base, folded)


def _commit(fl: Freshlake, table: StreamTable, storage: ChangeLogged, rows: Relation, node: str) -> None:
    root = fl._engine.layout.root(table, table.generation)
    last = Log(root.path).last_certificate()
    assert last is not None
    version = table.version + 1
    nodes = {name: state.version for name, state in table.nodes.items()} | ({node: version} if node else {})
    ours = replace(last, refresh_id=uuid4().hex, version=version, nodes=nodes, action="DIFFERENTIAL", reason=None)
    ours = replace(
        ours, row_count=None, from_frontier=dict(table.frontier or {}), to_frontier=dict(table.frontier or {})
    )
    if node:
        storage.append(fl.spark, rows, ours)
    root.append(fl.spark, Relation.empty(weighted(root.schema)) if node else rows, ours)
