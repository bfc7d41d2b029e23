"""The SDK's operations, a class for each subject of the API."""
