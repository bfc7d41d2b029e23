"""What stands at the address of an admin's page for everybody else."""

from app.ui.errors import show_closed

show_closed()
