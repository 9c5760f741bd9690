"""Keeping house: removing what nobody needs, finding what is broken, mending it."""
