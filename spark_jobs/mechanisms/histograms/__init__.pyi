from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy as Hierarchy
from spark_jobs.mechanisms.histograms.interface import (
    Histogram as Histogram,
    Method as Method,
    PublicFacts as PublicFacts,
)
from spark_jobs.mechanisms.histograms.release import methods as methods, release_histogram as release_histogram
