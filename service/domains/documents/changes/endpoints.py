"""catalog/*DocumentChange: changes of all documents that match filters."""

from carrel.wire import document_changes as wire
from service.domains.documents.changes import service
from service.web.routing import Router

router = Router()

router.serve(wire.START_DOCUMENT_CHANGE, service.start_change)
router.read(wire.GET_DOCUMENT_CHANGE, service.get_change)
