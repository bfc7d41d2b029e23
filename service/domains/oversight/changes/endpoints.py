"""catalog/*DocumentChange: changes of all documents that match filters."""

from carrel.wire import document_changes as wire
from service.domains.oversight.changes import changing
from service.web.routing import Router

router = Router()

router.serve(wire.START_DOCUMENT_CHANGE, changing.start_change)
router.serve(wire.START_ACCESS_CHANGE, changing.start_access_change)
router.read(wire.GET_DOCUMENT_CHANGE, changing.get_change)
