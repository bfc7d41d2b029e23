"""Access classes: resources with the same readers share one, and every visibility question is asked of them."""

import sqlalchemy as sa

from service.schema.tables import deleted_with, table

# A class never changes: a resource with new readers moves to another class, found by the digest of its readers.
access_classes = table(
    "access_classes",
    sa.Column("access_class", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("organization_id", "digest"),
)

class_readers = table(
    "class_readers",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("principal_id", sa.Uuid, deleted_with("principals.principal_id"), primary_key=True),
    sa.Column("access_class", sa.BigInteger, sa.ForeignKey("access_classes.access_class"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.CheckConstraint("role IN ('OWNER', 'EDITOR', 'VIEWER')", name="role"),
    sa.Index("ix_class_readers_class", "organization_id", "access_class", "principal_id"),
)

# Everything a grant can be set on: documents, collections, agents. `object_id` is the document's or
# collection's own id; (resource_type, resource_id) its identity in the source system.
# `container_id` is the document whose file holds this one's: both are always in the same class, and the container can't
# go before what it holds.
resources = table(
    "resources",
    sa.Column("object_id", sa.Uuid, primary_key=True),
    sa.Column("resource_type", sa.Text, nullable=False),
    sa.Column("resource_id", sa.Text, nullable=False),
    sa.Column("access_class", sa.BigInteger, sa.ForeignKey("access_classes.access_class"), nullable=False),
    sa.Column("container_id", sa.Uuid),
    sa.UniqueConstraint("organization_id", "resource_type", "resource_id"),
    sa.UniqueConstraint("object_id", "access_class"),
    sa.ForeignKeyConstraint(["container_id", "access_class"], ["resources.object_id", "resources.access_class"]),
    sa.Index(
        "ix_resources_container", "container_id", "access_class", postgresql_where=sa.text("container_id IS NOT NULL")
    ),
    sa.Index("ix_resources_class", "organization_id", "access_class", "object_id"),
    sa.Index("ix_resources_class_type", "organization_id", "access_class", "resource_type", "object_id"),
    sa.Index("ix_resources_object", "organization_id", "object_id", postgresql_include=["access_class"]),
    sa.Index("ix_resources_type", "organization_id", "resource_type", "object_id", postgresql_include=["access_class"]),
)
