"""`warren host`: several nodes of one machine behind one address."""
