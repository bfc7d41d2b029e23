"""documentCollections/* and sources/*: collections, their syncs and rebuilds, and the sources of runs."""

from carrel.wire import collections as wire
from carrel.wire import docstore, rebuilds, sources
from service.domains.documents.collections import membership, schemas, service, values
from service.domains.documents.docstore import service as syncs
from service.domains.documents.rebuilds import service as rebuilding
from service.domains.documents.sources import service as reports
from service.web.routing import Router

router = Router()

router.serve(wire.CREATE_DOCUMENT_COLLECTION, service.create_collection)
router.serve(wire.ADD_DOCUMENT_TO_COLLECTION, membership.add_document, acting=False)
router.serve(wire.ADD_DOCUMENT_CHUNKS_TO_COLLECTION, membership.add_chunks, acting=False)
router.serve(wire.REINDEX_DOCUMENT_IN_COLLECTION, membership.reindex_document, acting=False)
router.serve(wire.REMOVE_DOCUMENT_FROM_COLLECTION, service.remove_document)
router.serve(wire.DELETE_DOCUMENT_COLLECTION, service.delete_collection)
router.serve(wire.RENAME_DOCUMENT_COLLECTION, service.rename_collection)
router.read(wire.PLAN_FIELD_CHANGES, schemas.plan_changes)
router.serve(wire.CHANGE_FIELDS, schemas.change_fields)
router.read(wire.LIST_DOCUMENT_COLLECTIONS, service.list_collections)
router.read(wire.LIST_DOCUMENTS_IN_COLLECTION, values.list_documents)
router.read(wire.COUNT_VALUES, values.count_values)
router.serve(wire.CHANGE_VALUES, values.change_values)
router.read(wire.GET_DOCUMENT_CHUNKS, service.get_chunks)
router.serve(docstore.CREATE_DOCSTORE_SYNC, syncs.create_sync)
router.serve(docstore.UPDATE_DOCSTORE_SYNC, syncs.update_sync)
router.serve(docstore.LAUNCH_DOCSTORE_SYNC, syncs.launch_sync)
router.read(docstore.GET_DOCSTORE_SYNC, syncs.get_sync)
router.read(docstore.LIST_DOCSTORE_SYNCS, syncs.list_syncs)
router.read(docstore.LIST_DOCSTORE_FAILURES, syncs.list_failures)
router.read(docstore.LIST_DOCSTORE_HELD_REMOVALS, syncs.list_held_removals)
router.read(docstore.LIST_DOCSTORE_RUNS, syncs.list_runs)
router.serve(docstore.PREVIEW_DOCSTORE_SYNC, syncs.preview_sync, acting=False)
router.serve(docstore.DELETE_DOCSTORE_SYNC, syncs.delete_sync)
router.serve(rebuilds.START_INDEX_REBUILD, rebuilding.start_rebuild, acting=False)
router.read(rebuilds.GET_INDEX_REBUILD, rebuilding.get_rebuild)
router.read(rebuilds.LIST_INDEX_REBUILD_FAILURES, rebuilding.list_failures)
router.serve(rebuilds.CANCEL_INDEX_REBUILD, rebuilding.cancel_rebuild)
router.serve(sources.REPORT_SOURCE, reports.begin_report)
router.serve(sources.REPORT_SOURCE_ITEMS, reports.add_items)
router.serve(sources.END_SOURCE_REPORT, reports.end_report)
router.read(sources.LIST_SOURCES, reports.list_sources)
router.read(sources.LIST_SOURCE_ITEMS, reports.list_items)
router.serve(sources.IGNORE_SOURCE_ITEMS, reports.ignore_items)
router.serve(sources.RESTORE_SOURCE_ITEMS, reports.restore_items)
router.serve(sources.REMOVE_SOURCE, reports.remove_source)
