"""admin/questionLog: extensions, for admins only."""

from carrel.wire import question_log as wire
from service.domains.agents.conversations.question_log import service
from service.web.routing import Router

router = Router()

router.read(wire.ADMIN_QUESTION_LOG_QUERY, service.query_log, name="query_question_log")
router.read(wire.ADMIN_QUESTION_LOG_SUMMARIZE, service.summarize, name="summarize_question_log")
router.read(wire.ADMIN_QUESTION_LOG_RANK, service.rank, name="rank_question_log")
