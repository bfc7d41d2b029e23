"""Answering a message from what its sender may read: retrieval, a model, and citations that are checked.

`answer` knows nothing of conversations or HTTP: an `Assignment` goes in, a `Reply` comes out.
"""

from service.answering.answer import answer
from service.answering.models import Assignment, Citation, Exchange, ModelFailure, Passage, Progress, Reply
from service.answering.providers import BUILT_IN, model_names

__all__ = [
    "BUILT_IN",
    "Assignment",
    "Citation",
    "Exchange",
    "ModelFailure",
    "Passage",
    "Progress",
    "Reply",
    "answer",
    "model_names",
]
