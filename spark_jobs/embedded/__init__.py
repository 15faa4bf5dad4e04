"""The embedded engine: pysail, which speaks Spark Connect, needs no Java and runs on one machine."""
