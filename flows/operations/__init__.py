"""The work of the flows: plain async functions over the SDK's client, which know nothing of Prefect."""
