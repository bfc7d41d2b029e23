"""search/*: the catalog, a collection (extension), feedback, and the caller's own searches (extension)."""

from carrel.wire import own_searches
from carrel.wire import search as wire
from service.domains.search import service
from service.domains.search.own import service as own
from service.web.routing import Router

router = Router()

router.serve(wire.SEARCH_DOCUMENT_CATALOG, service.search_catalog, acting=False)
router.serve(wire.SEARCH_DOCUMENT_COLLECTION, service.search_collection, acting=False)
router.serve(wire.SUBMIT_SEARCH_FEEDBACK, service.submit_feedback, acting=False)
router.serve(own_searches.LIST_RECENT_SEARCHES, own.list_recent)
router.serve(own_searches.SAVE_SEARCH, own.save)
router.read(own_searches.LIST_SAVED_SEARCHES, own.list_saved)
router.serve(own_searches.DELETE_SAVED_SEARCH, own.delete_saved)
