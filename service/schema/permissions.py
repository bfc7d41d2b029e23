"""Access classes: resources with the same readers share one, and every visibility question is asked of them."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from service.platform.database import metadata

# A class never changes: a resource with new readers moves to another class, found by the digest of its readers.
access_classes = Table(
    "access_classes",
    metadata,
    Column("access_class", BigInteger, Identity(always=True), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    UniqueConstraint("organization_id", "digest"),
)

class_readers = Table(
    "class_readers",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id", ondelete="CASCADE"), primary_key=True),
    Column("access_class", BigInteger, ForeignKey("access_classes.access_class"), primary_key=True),
    Column("role", Text, primary_key=True),
    CheckConstraint("role IN ('OWNER', 'EDITOR', 'VIEWER')", name="role"),
    Index("ix_class_readers_class", "organization_id", "access_class", "principal_id"),
)

# Everything a grant can be set on: documents, collections, agents. `object_id` is the document's or
# collection's own id; (resource_type, resource_id) its identity in the source system.
# `container_id` is the document whose file holds this one's: both are always in the same class, and the container can't
# go before what it holds.
resources = Table(
    "resources",
    metadata,
    Column("object_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("resource_type", Text, nullable=False),
    Column("resource_id", Text, nullable=False),
    Column("access_class", BigInteger, ForeignKey("access_classes.access_class"), nullable=False),
    Column("container_id", Uuid),
    UniqueConstraint("organization_id", "resource_type", "resource_id"),
    UniqueConstraint("object_id", "access_class"),
    ForeignKeyConstraint(["container_id", "access_class"], ["resources.object_id", "resources.access_class"]),
    Index("ix_resources_container", "container_id", "access_class", postgresql_where=text("container_id IS NOT NULL")),
    Index("ix_resources_class", "organization_id", "access_class", "object_id"),
    Index("ix_resources_class_type", "organization_id", "access_class", "resource_type", "object_id"),
    Index("ix_resources_object", "organization_id", "object_id", postgresql_include=["access_class"]),
    Index("ix_resources_type", "organization_id", "resource_type", "object_id", postgresql_include=["access_class"]),
)
