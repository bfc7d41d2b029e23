"""Why a principal can read a resource: every path of groups and grants."""
