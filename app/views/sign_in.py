"""How the people of the organization sign in."""

from app import api
from app.credentials.second_factor import show_policy
from app.ui.access import require_admin
from app.ui.errors import show_errors
from app.ui.notices import show_title

TITLE, PURPOSE = "Sign-in", "How your people sign in, and what is asked for beside a password."

require_admin()
show_title(TITLE, PURPOSE)
show_policy(show_errors(api.client().admin.organization.get))
