"""The parts of a running service."""

from dataclasses import dataclass, field, replace

from service.index.ingestion.indexer import Indexer
from service.platform.background import Background
from service.platform.copies import Copies, Kept
from service.platform.database import Database
from service.platform.disk import DiskGuard
from service.platform.files import FileStore
from service.platform.rate_limits import RateLimits
from service.platform.secrets import Keys
from service.platform.settings import Settings
from service.platform.sharing import Share
from service.platform.sql import Clock
from service.runtime.jobs.queue import Jobs
from service.runtime.standbys import Standbys
from service.text.embedding import Embedders
from service.text.language_models import LanguageModels
from service.text.reading import Extractor, PageReader
from service.text.reranking import Reranker


@dataclass(frozen=True)
class Runtime:
    """The parts available to every endpoint and rule."""

    settings: Settings
    keys: Keys
    database: Database
    files: FileStore
    extractor: Extractor
    page_reader: PageReader
    embedders: Embedders
    rate_limits: RateLimits
    models: LanguageModels
    indexer: Indexer
    reranker: Reranker | None = None
    share: Share = field(default_factory=Share)
    standbys: Standbys = field(default_factory=Standbys)
    disk: DiskGuard = field(default_factory=DiskGuard)
    jobs: Jobs = field(default_factory=Jobs)
    background: Background = field(default_factory=Background)
    kept: Kept = field(default_factory=Kept)
    copies: Copies = field(default_factory=Copies)
    clock: Clock = field(default_factory=Clock)

    def beside_requests(self) -> "Runtime":
        """Return the runtime for background work, on connections separate from the requests' connections."""
        return replace(self, database=self.indexer.database)
