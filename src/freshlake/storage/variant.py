"""The bytes of a variant as SQL functions: Spark has no equality, order or hash for variants, and JSON loses types."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

VALUE = "__fl_variant_value"
METADATA = "__fl_variant_metadata"

_GETTERS = {VALUE: "getValue", METADATA: "getMetadata"}
_INVOKE = "org.apache.spark.sql.catalyst.expressions.objects.Invoke"


def register(spark: SparkSession) -> None:
    """Add both functions to the session, once; they are Catalyst expressions, so they also work inside lambdas."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    for name, getter in _GETTERS.items():
        if not spark.catalog.functionExists(name):
            registry.createOrReplaceTempFunction(name, _builder(spark, getter), "scala_udf")


def _builder(spark: SparkSession, getter: str) -> Any:
    """A Scala function Seq(argument) -> Invoke(argument, getter), put together from method handles."""
    jvm: Any = spark._jvm
    handles, types = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.invoke.MethodType
    lookup = handles.publicLookup()
    anything = _class(jvm, "java.lang.Object")
    constructor = lookup.unreflectConstructor(_class(jvm, _INVOKE).getConstructors()[0])
    nil, binary = _module(jvm, "scala.collection.immutable.Nil"), _module(jvm, "org.apache.spark.sql.types.BinaryType")
    rest = _array(spark, jvm.java.lang.Object, [getter, binary, nil, nil, True, True, True])
    invoke = handles.insertArguments(constructor, 1, rest)
    one = _array(spark, jvm.java.lang.Class, [anything])
    head = lookup.unreflect(
        _class(jvm, "scala.collection.IterableOps").getMethod("head", _array(spark, jvm.java.lang.Class, []))
    ).asType(types.methodType(invoke.type().parameterType(0), one))
    build = handles.filterArguments(invoke, 0, _array(spark, jvm.java.lang.invoke.MethodHandle, [head]))
    function = build.asType(types.methodType(anything, one))
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(_class(jvm, "scala.Function1"), function)


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def _module(jvm: Any, name: str) -> Any:
    return _class(jvm, name + "$").getField("MODULE$").get(None)


def _array(spark: SparkSession, kind: Any, values: list[Any]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(kind, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array
