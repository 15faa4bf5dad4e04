"""The Spark application: exact statistics on the executors, mechanisms and publishing on the driver."""
