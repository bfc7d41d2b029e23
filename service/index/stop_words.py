"""English words without meaning of their own: a few are left out of the index, more are left out of queries."""

from typing import Final

_LUCENE: Final = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""

_OF_QUESTIONS: Final = """
about above after again against ain all am any aren because been before being below between both can could couldn d did
didn do does doesn doing don down during each few find from further give had hadn has hasn have haven having he her here
hers herself him himself his how i isn its itself just ll m ma may me might mightn more most must mustn my myself needn
now o off once only other our ours ourselves out over own please re s same shall shan she should shouldn show so some t
tell than theirs them themselves those through too under until up ve very wasn we were weren what when where which while
who whom why won would wouldn y you your yours yourself yourselves
"""

INDEX_STOP_WORDS = frozenset(_LUCENE.split())

QUERY_STOP_WORDS = INDEX_STOP_WORDS | frozenset(_OF_QUESTIONS.split())
"""Words of little meaning in a query. They are indexed, so a query of only such words has results."""
