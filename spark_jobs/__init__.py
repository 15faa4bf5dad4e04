"""The Spark application: exact statistics on the executors, mechanisms and publishing on the driver."""

__version__ = "0.1.0"
