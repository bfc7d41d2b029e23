"""A function by which a transaction enters its organization, so that a cluster can do it on every server."""

from alembic import op

from service.platform.database import ORGANIZATION_SETTING, SERVICE_ROLE

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Make the function: PostgreSQL puts its one expression in place of each call, which costs nothing.

    `python -m service distribute-index` replaces it by one that tells the servers of the index, too.
    """
    op.execute(
        f"""
        CREATE FUNCTION enter_organization(organization text) RETURNS text LANGUAGE sql VOLATILE
        RETURN set_config('{ORGANIZATION_SETTING}', organization, true)
        """
    )
    op.execute(f"GRANT EXECUTE ON FUNCTION enter_organization TO {SERVICE_ROLE}")
