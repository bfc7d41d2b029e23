"""The queue of jobs, as procrastinate 3.10 has it."""

from service.migrations.job_queue import allow_service, apply_files, protect_jobs

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the queue."""
    apply_files(through="03.04.00_50")
    allow_service()
    protect_jobs()
