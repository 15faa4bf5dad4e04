from spark_jobs.federation.additive import add as add, reconstruct as reconstruct, split as split
from spark_jobs.federation.agreement import (
    Agreement as Agreement,
    Keys as Keys,
    Participant as Participant,
    Server as Server,
)
from spark_jobs.federation.comparison import (
    ComparisonKeys as ComparisonKeys,
    PaidComparisons as PaidComparisons,
    comparison_keys as comparison_keys,
    evaluate as evaluate,
)
from spark_jobs.federation.exchange import FederationFailed as FederationFailed, Silo as Silo, draw_hash as draw_hash
from spark_jobs.federation.masked import (
    Disclosure as Disclosure,
    Introduction as Introduction,
    Party as Party,
    Session as Session,
    unmasked_sum as unmasked_sum,
)
from spark_jobs.federation.measuring import (
    LINEAR as LINEAR,
    measure_in_silo as measure_in_silo,
    measure_together as measure_together,
)
from spark_jobs.federation.noise_shares import NoiseShare as NoiseShare
from spark_jobs.federation.serving import Summing as Summing
from spark_jobs.federation.ustat import Curator as Curator, Masked as Masked, Servers as Servers, UStat as UStat
