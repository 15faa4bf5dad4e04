"""An engine without Java for what fits one machine: pysail, which speaks Spark Connect."""
