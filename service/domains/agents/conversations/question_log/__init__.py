"""The question log: people's questions to agents and the outcomes, for admins. Replies need the admin's own rights."""
