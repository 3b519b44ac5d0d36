"""One file per operator: RULES says which rule differentiates which operator, STORED which ones are stored nodes.

Joins that are not inner joins are one operator with several kinds; JOINS has their rules.
"""

from freshlake.compiler.rules.aggregate import AGGREGATE
from freshlake.compiler.rules.anti_join import ANTI_JOIN
from freshlake.compiler.rules.existence_join import EXISTENCE_JOIN
from freshlake.compiler.rules.expand import EXPAND
from freshlake.compiler.rules.filter import FILTER
from freshlake.compiler.rules.full_join import FULL_JOIN
from freshlake.compiler.rules.generate import GENERATE
from freshlake.compiler.rules.inner_join import INNER_JOIN
from freshlake.compiler.rules.left_join import LEFT_JOIN
from freshlake.compiler.rules.node import NODE
from freshlake.compiler.rules.project import PROJECT
from freshlake.compiler.rules.recursion import RECURSION
from freshlake.compiler.rules.scan import SCAN
from freshlake.compiler.rules.semi_join import SEMI_JOIN
from freshlake.compiler.rules.set_operation import SET_OPERATION
from freshlake.compiler.rules.single_join import SINGLE_JOIN
from freshlake.compiler.rules.top_k import TOP_K
from freshlake.compiler.rules.union_all import UNION_ALL
from freshlake.compiler.rules.window import WINDOW

RULES = {rule.operator: rule for rule in (SCAN, NODE, FILTER, PROJECT, UNION_ALL, INNER_JOIN, GENERATE, EXPAND)}

JOINS = {rule.kind: rule for rule in (LEFT_JOIN, FULL_JOIN, SEMI_JOIN, ANTI_JOIN, EXISTENCE_JOIN, SINGLE_JOIN)}

STORED = {rule.operator: rule for rule in (AGGREGATE, WINDOW, SET_OPERATION, TOP_K, RECURSION)}


__all__ = ["JOINS", "RULES", "STORED"]
