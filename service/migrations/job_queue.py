"""The job queue's tables and functions, which belong to procrastinate, and the service's rights on them. The library
brings migrations as SQL files, named by version. A migration of ours applies all files through a version; after an
upgrade of the library, a further migration applies the newer files."""

from importlib.resources import files

from alembic import op

from service.migrations.row_security import CURRENT_ORGANIZATION, show_to_backups
from service.platform.database import SERVICE_ROLE

PREFIX = "procrastinate_"
JOBS = "procrastinate_jobs"
# Includes the sequences for ids. Events are the library's history of a job, deleted with it.
_PRIVILEGES = {
    JOBS: "SELECT, INSERT, UPDATE, DELETE",
    "procrastinate_workers": "SELECT, INSERT, UPDATE, DELETE",
    "procrastinate_events": "INSERT",
    "procrastinate_periodic_defers": "SELECT, UPDATE",
}
_SEQUENCES = ("procrastinate_jobs_id_seq", "procrastinate_events_id_seq")


def apply_files(*, after: str = "", through: str) -> None:
    """Run the library's migrations named after a prefix and up to another."""
    for file in sorted(files("procrastinate.sql").joinpath("migrations").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql") and after < file.name[: len(through)] <= through:
            run_script(file.read_text(encoding="utf-8"))


def allow_service() -> None:
    """Let the service enqueue and work jobs only. Call again when the library adds functions."""
    for table, privileges in _PRIVILEGES.items():
        op.execute(f"GRANT {privileges} ON {table} TO {SERVICE_ROLE}")
    for sequence in _SEQUENCES:
        op.execute(f"GRANT USAGE ON SEQUENCE {sequence} TO {SERVICE_ROLE}")
    op.execute(
        f"""
        DO $$ DECLARE routine regprocedure; BEGIN
            FOR routine IN SELECT oid FROM pg_proc
                WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, '{PREFIX}')
            LOOP EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {SERVICE_ROLE}', routine); END LOOP;
        END $$
        """  # noqa: S608 - constants
    )


def protect_jobs() -> None:
    """Limit each transaction to its organization's jobs. Workers set no organization, and see all jobs."""
    op.execute(f"ALTER TABLE {JOBS} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {JOBS} FORCE ROW LEVEL SECURITY")
    condition = f"args ->> 'organization_id' = {CURRENT_ORGANIZATION}::text"
    op.execute(f"CREATE POLICY organization ON {JOBS} USING ({condition}) WITH CHECK ({condition})")
    outside = f"{CURRENT_ORGANIZATION} IS NULL"
    op.execute(f"CREATE POLICY worker ON {JOBS} USING ({outside}) WITH CHECK ({outside})")
    show_to_backups(JOBS)


def run_script(script: str) -> None:
    """Run several statements as a single message without parameters, so a percent sign needs no escape."""
    op.get_bind().exec_driver_sql(script, execution_options={"no_parameters": True})
