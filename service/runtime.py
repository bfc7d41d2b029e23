"""The parts that a running service holds."""

from dataclasses import dataclass, field, replace

from service.background import Background
from service.clock import Clock
from service.database import Database
from service.disk import DiskGuard
from service.embedding import Embedders
from service.extraction import Extractor
from service.files import FileStore
from service.ingestion.indexer import Indexer
from service.jobs.queue import Jobs
from service.keys import Keys
from service.language_models import LanguageModels
from service.rate_limits import RateLimits
from service.settings import Settings


@dataclass(frozen=True)
class Runtime:
    """The parts every endpoint and rule may ask for."""

    settings: Settings
    keys: Keys
    database: Database
    files: FileStore
    extractor: Extractor
    embedders: Embedders
    rate_limits: RateLimits
    models: LanguageModels
    indexer: Indexer
    disk: DiskGuard = field(default_factory=DiskGuard)
    jobs: Jobs = field(default_factory=Jobs)
    background: Background = field(default_factory=Background)
    clock: Clock = field(default_factory=Clock)

    def beside_requests(self) -> "Runtime":
        """Return the runtime for work that nobody waits for, on connections that no request waits for."""
        return replace(self, database=self.indexer.database)
