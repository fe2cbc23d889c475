"""The process: configuration, boot, listeners, endpoints, logins, management, commands."""

import warren as warren  # Compiled modules can be found from now on.
