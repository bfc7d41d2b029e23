"""The work of the flows: plain async functions over the SDK's client, independent of Prefect."""
