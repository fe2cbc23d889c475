"""Shovels and links of federation: rules, and hosts on `warren.client`."""

import warren as warren  # Compiled modules can be found from now on.
