"""Wire protocols, storage and clients. Its import lets Python find compiled modules."""

from warren.compiled import install

install()
