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
router.read(wire.LIST_DOCSTORE_HELD_REMOVALS, service.list_held_removals)
router.read(wire.LIST_DOCSTORE_RUNS, service.list_runs)
router.serve(wire.PREVIEW_DOCSTORE_SYNC, service.preview_sync, acting=False)
router.serve(wire.DELETE_DOCSTORE_SYNC, service.delete_sync)
