"""documentCollections/* except docstore: collections, documents in collections, and chunks."""

from carrel.wire import collections as wire
from service.domains.documents.collections import membership, schemas, service, values
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
