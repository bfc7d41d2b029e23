"""The operations of the API, in six areas, each using the areas before it: endpoints, rules and SQL."""
