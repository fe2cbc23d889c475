"""What a message costs that is shown in another form than the stored one, in bytes of a budget.

What a connection may write in a turn is counted in bytes. A message that is converted takes time
that its bytes do not tell, so it costs at least this, however small it is.
"""

from typing import Final

CONVERTED: Final = 4096  # converted by itself: 20 to 40 us
REWRITTEN: Final = 1024  # headers of its own are put into it: 4 us
REPEATED: Final = 256  # as the one before but for the body or a number: 1 us
