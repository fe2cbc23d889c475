"""Which node does a job that one node alone may do, and how busy the nodes are.

`seam` is what the rest of the node sees; `registry` decides, `replica` has it replicated by
pysyncobj, `transport` carries that over the peer links, `codec` is its bytes, `service` puts them
together.
"""
