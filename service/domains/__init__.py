"""The operations of the API, a package for each subject: endpoints, rules (`service`) and SQL (`queries`)."""
