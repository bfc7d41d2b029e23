"""The work itself: plain async functions over the SDK's client, knowing nothing of Prefect."""
