"""sources/*: the sources of runs, and the items that could not be loaded."""

from carrel.wire import sources as wire
from service.domains.documents.sources import service
from service.web.routing import Router

router = Router()

router.serve(wire.REPORT_SOURCE, service.begin_report)
router.serve(wire.REPORT_SOURCE_ITEMS, service.add_items)
router.serve(wire.END_SOURCE_REPORT, service.end_report)
router.read(wire.LIST_SOURCES, service.list_sources)
router.read(wire.LIST_SOURCE_ITEMS, service.list_items)
router.serve(wire.IGNORE_SOURCE_ITEMS, service.ignore_items)
router.serve(wire.RESTORE_SOURCE_ITEMS, service.restore_items)
router.serve(wire.REMOVE_SOURCE, service.remove_source)
