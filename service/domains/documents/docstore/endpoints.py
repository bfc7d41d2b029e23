"""documentCollections/docstore/*: syncs of collections with outside document databases (seed, beta)."""

from carrel.wire import docstore as wire
from service.domains.documents.docstore import service
from service.web.routing import Router

router = Router()

router.serve(wire.CREATE_DOCSTORE_SYNC, service.create_sync)
router.serve(wire.UPDATE_DOCSTORE_SYNC, service.update_sync)
router.serve(wire.LAUNCH_DOCSTORE_SYNC, service.launch_sync)
router.read(wire.GET_DOCSTORE_SYNC, service.get_sync)
router.read(wire.LIST_DOCSTORE_SYNCS, service.list_syncs)
router.read(wire.LIST_DOCSTORE_FAILURES, service.list_failures)
router.serve(wire.DELETE_DOCSTORE_SYNC, service.delete_sync)
