"""The wire models: the JSON of every request and response, for the service and the SDK."""
