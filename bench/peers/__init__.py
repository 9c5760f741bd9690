"""Lancewood, plain Parquet and three peers on one Spark: ``python -m bench peers``.

The peers are fetched when this runs, into ``build/peers``; Lancewood depends on none of them.
"""
