"""Run a program: steps in order, every delta materialised once, small ones on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, VariantType

from freshlake.compiler import plan as p
from freshlake.compiler.compile import CompiledQuery
from freshlake.compiler.current_time import NOW
from freshlake.compiler.emit import emit, leaf_key
from freshlake.compiler.passes.drop_empty import drop_empty
from freshlake.compiler.program import RefreshProgram, Step, StepKind
from freshlake.compiler.restrict import hint_ref
from freshlake.compiler.split import ROOT
from freshlake.compiler.walk import nodes as walk
from freshlake.config import Settings
from freshlake.refresh.inputs import Inputs, SourceSpan, StoredNode
from freshlake.refresh.levels import Unrolling
from freshlake.refresh.worker import Worker
from freshlake.sources.protocol import Position
from freshlake.storage.identity import consolidate, contains
from freshlake.storage.netting import distinct_values, in_utc, net, nettable
from freshlake.storage.relation import WEIGHT, Relation
from freshlake.storage.scan import KeyFilter
from freshlake.storage.table import FoldPoint

_RESULT_SIZE = "spark.driver.maxResultSize"
_MAX_NETTED = 200_000
"""Rows that are summed faster on the driver than by a shuffle."""
_FEW_ROWS = 20_000
"""Rows that are read sooner than the plan that reads them is compiled."""
_MAX_HINT_VALUES = 20_000
"""Key values beyond this are not worth comparing with file statistics."""

Load = Callable[[str, DataFrame], FoldPoint]
"""Store the first rows of a node; says where its base then stands."""

Settle = Callable[[str], Relation]
"""Append a node's change, and read it back from its log."""


@dataclass
class Runner:
    """Runs one program once; `results` holds the change of every stored node."""

    worker: Worker
    compiled: CompiledQuery
    inputs: Inputs
    settings: Settings
    load: Load | None = None
    settle: Settle | None = None
    results: dict[str, Relation] = field(default_factory=dict)
    steps: dict[str, Relation] = field(default_factory=dict)
    deltas: dict[str, Relation] = field(default_factory=dict)
    loaded: dict[str, FoldPoint] = field(default_factory=dict)
    found: dict[str, tuple[DataFrame, int] | None] = field(default_factory=dict)
    cached: list[DataFrame] = field(default_factory=list)
    rows_in: int = 0

    def run(self, program: RefreshProgram) -> None:
        for step in program.steps:
            self._run(step)

    def release(self) -> None:
        for frame in self.cached:
            frame.unpersist()

    def _run(self, step: Step) -> None:
        if step.kind is StepKind.SELECT:
            self.steps[step.name] = self._select(step)
            return
        if step.kind is StepKind.LOOP:
            self.steps[step.name] = self._loop(step)
            return
        plan = drop_empty(step.plan, self._is_empty)
        if self.load is not None and step.node is not None:
            assert plan is not None
            self.loaded[step.node] = self.load(step.node, self.frame(plan))
            return
        relation = self._materialise(plan, step)
        if step.node is not None:
            relation = self._settled(step.node, relation)
        self.steps[step.name] = relation

    def _settled(self, node_id: str, change: Relation) -> Relation:
        """The change of a node, which others are computed from and which is stored: both must be one and the same.

        Spark would compute a large one for each of them, and sums of floats or ties may come out differently.
        """
        self.results[node_id] = change
        if change.frame is not None and node_id != ROOT and self.settle is not None:
            self.results[node_id] = self.settle(node_id)
        return self.results[node_id]

    def _select(self, step: Step) -> Relation:
        assert isinstance(step.plan, p.Ref)
        assert step.flag is not None
        source = self.steps[step.plan.step]
        if source.arrow is not None:
            table = source.arrow.filter(pc.fill_null(source.arrow.column(step.flag), False))
            return Relation(source.schema, table, None, table.num_rows, False)
        assert source.frame is not None
        return Relation(source.schema, None, source.frame.where(F.col(step.flag)), None, False)

    def _loop(self, step: Step) -> Relation:
        """Round by round, each summed, so that what cancels is not carried on."""
        assert step.body is not None
        rounds = Unrolling(self.worker.running, _schema_of(step.plan), step.limit)
        summed = replace(step, kind=StepKind.NET)
        found = rounds.add(self._materialise(drop_empty(step.plan, self._is_empty), summed))
        while found is not None:
            self.steps[step.name] = found
            # rows that were looked up by the keys of the round before
            self.found = {key: rows for key, rows in self.found.items() if f"~{step.name}." not in key}
            found = rounds.add(self._materialise(drop_empty(step.body, self._is_empty), summed))
        return rounds.together(self.worker.running)

    # Leaves ----------------------------------------------------------------------------------------------------------

    def _is_empty(self, leaf: p.Plan) -> bool:
        relation = self._delta(leaf) if isinstance(leaf, p.Delta) else self.steps[getattr(leaf, "step", "")]
        return bool(relation.is_empty)

    def _delta(self, leaf: p.Delta) -> Relation:
        if leaf.source in self.inputs.nodes and leaf.source not in self.inputs.spans:
            return self.results[leaf.source]
        key = leaf_key(leaf)
        if key not in self.deltas:
            span = self.inputs.spans[leaf.source]
            assert span.start is not None
            relation = span.source.changes(self.worker.running, span.start, span.end, leaf.fields)
            self.rows_in += 0 if leaf.source == NOW else relation.rows or 0
            self.deltas[key] = relation
        return self.deltas[key]

    def _leaf(self, leaf: p.Plan) -> DataFrame:
        spark = self.worker.running
        match leaf:
            case p.Delta():
                return self._delta(leaf).dataframe(spark).select(*(_column(f) for f in (*leaf.fields, WEIGHT)))
            case p.Ref():
                return self.steps[leaf.step].dataframe(spark)
            case p.State() if leaf.stored:
                return self._stored(leaf)
            case p.State():
                span = self.inputs.spans[leaf.of]
                if (found := self._found(leaf)) is not None:
                    return found[0]
                return span.source.snapshot(spark, _at(span, leaf), leaf.fields, self._keys(leaf))
        raise TypeError(type(leaf).__name__)

    def _found(self, leaf: p.State) -> tuple[DataFrame, int] | None:
        """The rows of a source that a change can touch, when the driver finds them by their keys."""
        key = leaf_key(leaf)
        if key not in self.found:
            keys, span = self._keys(leaf), self.inputs.spans[leaf.of]
            spark, at = self.worker.running, _at(span, leaf)
            self.found[key] = span.source.lookup(spark, at, leaf.fields, keys) if keys else None
        return self.found[key]

    def _stored(self, leaf: p.State) -> DataFrame:
        node = self.inputs.nodes[leaf.of]
        extra = [self._as_stored(leaf.of)] if leaf.when is p.When.AFTER and leaf.of in self.results else []
        version, fold = node.version, node.fold
        if leaf.of in self.loaded:
            fold = self.loaded[leaf.of]
            version = fold.folded_version
        assert fold is not None
        return node.table.read(
            self.worker.running, version, fold, columns=leaf.fields, keys=self._keys(leaf), extra=extra
        )

    def _as_stored(self, node_id: str) -> Relation:
        """A node's change under the names of its storage."""
        return renamed(self.results[node_id], [c.field for c in self.compiled.node(node_id).columns])

    def _keys(self, leaf: p.State) -> Sequence[KeyFilter]:
        filters = []
        for hint in leaf.prune:
            relation = self.steps.get(hint.ref) or self.deltas.get(hint.ref) or self._moments(hint.ref)
            if relation is None or relation.arrow is None or hint.key not in relation.arrow.column_names:
                continue
            known = distinct_values(relation.arrow.column(hint.key), _MAX_HINT_VALUES)
            if known is not None:
                filters.append(KeyFilter(hint.field, *known))
        return filters

    def _moments(self, ref: str) -> Relation | None:
        """The old and the new time, which plans compare without reading them as a change."""
        source, _, fields = ref.removeprefix("delta:").partition(":")
        return self._delta(p.Delta((), NOW, tuple(fields.split(",")))) if source == NOW else None

    # Evaluation ------------------------------------------------------------------------------------------------------

    def frame(self, plan: p.Plan) -> DataFrame:
        """A plan over the leaves as they were pinned."""
        hints = {hint_ref(n): n for n in walk(plan) if isinstance(n, p.Delta)}
        for leaf in hints.values():
            self._delta(leaf)
        few = self._reads_few(plan)
        self.worker.interpret(few)
        leaves = {leaf_key(n): self._leaf(n) for n in walk(plan) if isinstance(n, p.State | p.Delta | p.Ref)}
        return emit(plan, leaves, self.worker.run_bridge, self.worker.running, single=few)

    def _reads_few(self, plan: p.Plan) -> bool:
        """Whether the leaves together hold few rows, as far as their metadata knows."""
        total = 0
        for leaf in walk(plan):
            match leaf:
                case p.Delta():
                    rows = self._delta(leaf).rows
                case p.Ref():
                    rows = self.steps[leaf.step].rows
                case p.State() if not leaf.stored:
                    found = self._found(leaf)
                    rows = found[1] if found else self.inputs.spans[leaf.of].rows
                case _ if leaf.children:
                    continue
                case _:
                    rows = None
            if rows is None or total + rows > _FEW_ROWS:
                return False
            total += rows
        return True

    def _looked_up(self, plan: p.Plan) -> Relation | None:
        """Stored rows of a few groups, read on the driver when they are few: perhaps more groups than were asked for.

        What a rule does with them must not depend on it: groups that did not change are subtracted and added alike, or
        restricted again.
        """
        leaf = plan.inputs[0] if isinstance(plan, p.SemiJoin) else plan
        if not (isinstance(leaf, p.State) and leaf.stored) or leaf.of in self.loaded:
            return None
        node = self.inputs.nodes[leaf.of]
        if node.fold is None or leaf.when is p.When.AFTER:
            return None
        table = node.table.lookup(self.worker.running, node.version, node.fold, leaf.fields, self._keys(leaf))
        if table is None:
            return None
        return Relation.of_arrow(table.rename_columns(list(leaf.names)), _schema_of(leaf), insert_only=False)

    def _netted(self, plan: p.Plan, step: Step) -> Relation | None:
        """A small result is summed on the driver: one job instead of a shuffle."""
        if not _is_summed(step):
            return None
        leaves = [n for n in walk(plan) if isinstance(n, p.Delta | p.Ref)]
        known = [self._delta(n) if isinstance(n, p.Delta) else self.steps[n.step] for n in leaves]
        if any(r.rows is None for r in known) or sum(r.rows or 0 for r in known) > _MAX_NETTED:
            return None
        frame = self.frame(plan)
        raw = collect_small(frame, self.settings, _MAX_NETTED)
        if raw is None or not nettable(raw):
            return None
        table = net(raw)
        return Relation.of_arrow(table, frame.schema, insert_only=False)

    def _materialise(self, plan: p.Plan | None, step: Step) -> Relation:
        if plan is None:
            return Relation.empty(_schema_of(step.plan))
        found = self._looked_up(plan) or self._netted(plan, step)
        if found is not None:
            return found
        frame = self.frame(plan)
        if _is_summed(step):
            frame = consolidate(frame)
        small = collect_small(frame, self.settings)
        if small is not None:
            return Relation(frame.schema, small, None, small.num_rows, step.consolidated)
        if step.kind is not StepKind.RESULT:
            frame = frame.persist()
            self.cached.append(frame)
        return Relation(frame.schema, None, frame, None, step.consolidated)


def _is_summed(step: Step) -> bool:
    return step.kind is StepKind.NET or (step.kind is StepKind.RESULT and not step.consolidated)


def _at(span: SourceSpan, leaf: p.State) -> Position:
    at = span.end if leaf.when is p.When.AFTER else span.start
    assert at is not None
    return at


def _schema_of(plan: p.Plan) -> StructType:
    return StructType([StructField(c.name, _type_of(c.type or "long"), True) for c in plan.columns])


def _type_of(kind: str) -> DataType:
    """The type that a column carries as Spark's JSON; in words, where its JSON leaves a collation out."""
    import json

    from pyspark.sql.types import _parse_datatype_json_string

    try:
        return _parse_datatype_json_string(kind if kind.startswith("{") else json.dumps(kind))
    except PySparkException:
        return DataType.fromDDL(kind)


def collect_small(frame: DataFrame, settings: Settings, rows: int | None = None) -> pa.Table | None:
    """The rows as Arrow, or None when they are more than the driver may hold, or have a type that it cannot hold."""
    if contains(frame.schema, VariantType):  # PySpark cannot turn one that is NULL into Arrow
        return None
    width = max(8, sum(_width(f.dataType) for f in frame.schema))
    most = max(1, min(rows or settings.driver_rows, settings.driver_rows, settings.driver_result_bytes // width))
    try:
        table = frame.limit(most + 1).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        if _RESULT_SIZE in str(error):  # rows wider than they looked: Spark keeps them
            return None
        raise
    if table.num_rows > most or table.nbytes > settings.driver_result_bytes:
        return None
    return in_utc(table, frame.schema)


def _width(kind: object) -> int:
    name = getattr(kind, "typeName", lambda: "")()
    return {"string": 32, "binary": 64, "array": 128, "map": 128, "struct": 128, "variant": 256, "decimal": 16}.get(
        name, 8
    )


def renamed(relation: Relation, names: Sequence[str]) -> Relation:
    """The same rows under other column names; the weight stays last."""
    full = [*names, WEIGHT]
    schema = StructType.fromJson(relation.schema.jsonValue())
    schema = StructType([type(f)(n, f.dataType, f.nullable, f.metadata) for n, f in zip(full, schema, strict=True)])
    arrow = relation.arrow.rename_columns(full) if relation.arrow is not None else None
    frame = relation.frame.toDF(*full) if relation.frame is not None else None
    return Relation(schema, arrow, frame, relation.rows, relation.insert_only)


def _column(name: str) -> Column:
    return F.col(p.quote(name))


__all__ = ["Runner", "StoredNode", "collect_small", "renamed"]
