"""Collections with everybody's roles in them: looked up before it is known who asks."""
