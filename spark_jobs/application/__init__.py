"""The Spark application: from a request to a draft of its release."""
