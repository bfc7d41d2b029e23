"""documentCollections/…IndexRebuild: rebuilding the index of a collection, or the catalog's, with another model."""

from carrel.wire import rebuilds as wire
from service.domains.documents.rebuilds import service
from service.web.routing import Router

router = Router()

router.serve(wire.START_INDEX_REBUILD, service.start_rebuild, acting=False)
router.read(wire.GET_INDEX_REBUILD, service.get_rebuild)
router.read(wire.LIST_INDEX_REBUILD_FAILURES, service.list_failures)
router.serve(wire.CANCEL_INDEX_REBUILD, service.cancel_rebuild)
