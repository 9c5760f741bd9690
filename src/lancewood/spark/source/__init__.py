"""``format("lance")``, its options and its metadata tables.

What Spark wants to be classes of its own are made of ours when it asks (``shape.spark_class``):
importing this room loads neither pyspark nor pylance.
"""
