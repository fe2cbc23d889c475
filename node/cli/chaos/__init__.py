"""`warren chaos`: campaigns that break a cluster, and their arguments."""
