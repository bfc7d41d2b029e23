"""The operations of the API, in six areas: people, access, documents, search, agents, oversight.

An area may use the areas before it. A package of an area has endpoints, rules (`service`) and SQL (`queries`).
"""
