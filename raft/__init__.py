"""Log groups of one or several members."""

import warren as warren  # Compiled modules can be found from now on.
