"""The service's restricted role, and row-level security. A transaction names an organization in the setting
`carrel.organization_id`; without a name it sees no row. A sub-select reads the setting once a statement, not once a
row."""

from collections.abc import Sequence

from alembic import op

from service.platform.database import BACKUP_SETTING, ORGANIZATION_SETTING, SERVICE_ROLE

CURRENT_ORGANIZATION = f"(SELECT NULLIF(current_setting('{ORGANIZATION_SETTING}', true), '')::uuid)"


def create_role() -> None:
    """Create the service's role if the cluster lacks it, and let the migrating user become the role."""
    op.execute(
        f"""
        DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{SERVICE_ROLE}') THEN
                CREATE ROLE {SERVICE_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS;
            END IF;
            IF NOT pg_has_role(current_user, '{SERVICE_ROLE}', 'SET') THEN
                GRANT {SERVICE_ROLE} TO CURRENT_USER;
            END IF;
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO {SERVICE_ROLE}', current_schema());
        END $$
        """
    )
    op.execute(f"GRANT SELECT ON alembic_version TO {SERVICE_ROLE}")


def protect(table: str, *, privileges: Sequence[str] = ("SELECT", "INSERT", "UPDATE", "DELETE")) -> None:
    """Limit the service to privileges on rows of the transaction's organization; a backup's owner sees all rows."""
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    condition = f"organization_id = {CURRENT_ORGANIZATION}"
    op.execute(f"CREATE POLICY organization ON {table} USING ({condition}) WITH CHECK ({condition})")
    op.execute(f"GRANT {', '.join(privileges)} ON {table} TO {SERVICE_ROLE}")
    show_to_backups(table)


def show_before_authentication(table: str) -> None:
    """Also show every row of `table` to a transaction without an organization, for looking up a credential."""
    op.execute(f"CREATE POLICY before_authentication ON {table} FOR SELECT USING ({CURRENT_ORGANIZATION} IS NULL)")


def show_to_backups(table: str) -> None:
    """Show every row of `table` to the owner during a backup, announced by a setting: owners are rarely superusers."""
    condition = f"(SELECT current_setting('{BACKUP_SETTING}', true) = 'on')"
    op.execute(f"CREATE POLICY backup ON {table} FOR SELECT TO pg_database_owner USING ({condition})")
