"""Method `impulses`: contacts, friction and joints in maximal coordinates (Weinstein, Teran, Fedkiw 2006)."""

from limberjack.methods.impulses.options import Impulses

__all__ = ["Impulses"]
