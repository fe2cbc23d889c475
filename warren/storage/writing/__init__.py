"""How the log gets to the disk: who writes a group, and writes that need no thread."""
