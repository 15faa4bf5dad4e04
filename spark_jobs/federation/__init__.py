"""Releases of several owners' tables together: noisy sums of vectors that nobody sees in the clear."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.federation.additive import add as add
    from spark_jobs.federation.additive import reconstruct as reconstruct
    from spark_jobs.federation.additive import split as split
    from spark_jobs.federation.agreement import Agreement as Agreement
    from spark_jobs.federation.agreement import Keys as Keys
    from spark_jobs.federation.agreement import Participant as Participant
    from spark_jobs.federation.agreement import Server as Server
    from spark_jobs.federation.comparison import ComparisonKeys as ComparisonKeys
    from spark_jobs.federation.comparison import PaidComparisons as PaidComparisons
    from spark_jobs.federation.comparison import comparison_keys as comparison_keys
    from spark_jobs.federation.comparison import evaluate as evaluate
    from spark_jobs.federation.exchange import FederationFailed as FederationFailed
    from spark_jobs.federation.exchange import Silo as Silo
    from spark_jobs.federation.exchange import draw_hash as draw_hash
    from spark_jobs.federation.masked import Disclosure as Disclosure
    from spark_jobs.federation.masked import Introduction as Introduction
    from spark_jobs.federation.masked import Party as Party
    from spark_jobs.federation.masked import Session as Session
    from spark_jobs.federation.masked import unmasked_sum as unmasked_sum
    from spark_jobs.federation.measuring import LINEAR as LINEAR
    from spark_jobs.federation.measuring import measure_in_silo as measure_in_silo
    from spark_jobs.federation.measuring import measure_together as measure_together
    from spark_jobs.federation.noise_shares import NoiseShare as NoiseShare
    from spark_jobs.federation.serving import Summing as Summing
    from spark_jobs.federation.ustat import Curator as Curator
    from spark_jobs.federation.ustat import Masked as Masked
    from spark_jobs.federation.ustat import Servers as Servers
    from spark_jobs.federation.ustat import UStat as UStat

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "additive": "add reconstruct split",
        "agreement": "Agreement Keys Participant Server",
        "comparison": "ComparisonKeys PaidComparisons comparison_keys evaluate",
        "exchange": "FederationFailed Silo draw_hash",
        "masked": "Disclosure Introduction Party Session unmasked_sum",
        "measuring": "LINEAR measure_in_silo measure_together",
        "noise_shares": "NoiseShare",
        "serving": "Summing",
        "ustat": "Curator Masked Servers UStat",
    },
)
