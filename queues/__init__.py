"""The queue machine and its hosts, routing, definitions, flow control."""

import warren as warren  # Compiled modules can be found from now on.
