"""The schema of version 0.4.0. Databases with an older schema must go through version 0.4.0 first."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from service.migrations.job_queue import allow_service, apply_files, protect_jobs, run_script
from service.migrations.row_security import create_role, protect, show_before_authentication
from service.platform.database import SERVICE_ROLE

revision, down_revision, usable_from = "0090", None, "0079"

DIMENSIONS = (384, 768, 1024, 1536)
# The rows that a request is looked up in before it has an organization, by the hash of its secret or by its client.
FOUND_BEFORE_AUTHENTICATION = (
    "api_keys",
    "browser_sessions",
    "invitations",
    "oauth_access_tokens",
    "oauth_clients",
    "oauth_codes",
    "oauth_refresh_tokens",
    "organizations",
    "passkeys",
    "pending_sign_ins",
    "scim_tokens",
    "service_account_tokens",
    "sign_in_domains",
)


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    run_script(_read("0090_baseline.sql"))
    op.add_column("alembic_version", sa.Column("usable_from", sa.Text()))
    create_role()
    for dimensions in DIMENSIONS:
        run_script(_read("0090_index.sql").replace("{dimensions}", str(dimensions)))
    _protect_tables()
    run_script(_read("0090_functions.sql"))
    # The queue as procrastinate 3.10 has it.
    apply_files(through="03.04.00_50")
    allow_service()
    protect_jobs()


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _protect_tables() -> None:
    of_organizations = "SELECT table_name FROM information_schema.columns WHERE column_name = 'organization_id'"
    tables = set(op.get_bind().exec_driver_sql(f"{of_organizations} AND table_schema = current_schema()").scalars())
    for table in sorted(tables - {"audit_entries"}):
        protect(table)
    # The audit log only grows: not even the service can change or delete an entry.
    protect("audit_entries", privileges=("SELECT", "INSERT"))
    for table in FOUND_BEFORE_AUTHENTICATION:
        show_before_authentication(table)
    written = "files_listed_at, replication_marks, replication_marked_at, replication_timeline"
    op.execute(f"GRANT SELECT, INSERT, UPDATE ({written}) ON deployment TO {SERVICE_ROLE}")
    op.execute(f"GRANT SELECT, INSERT, DELETE ON unused_files TO {SERVICE_ROLE}")
