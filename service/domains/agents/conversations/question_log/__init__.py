"""The question log: what people asked agents and what came of it, for admins, with replies by their own rights."""
