"""Links to the other nodes of the cluster: sockets, dialing, who may come in (`node.peers`)."""
