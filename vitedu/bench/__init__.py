"""Our models' speed beside the same networks of other libraries, in one run.

`bench(vit_config("ViT-S/16"), Settings(batch_size=4))["inference"]["ratio"]`
"""

from vitedu.bench.measure import KINDS, Settings, bench, matmul_ceiling
from vitedu.bench.peers import PEERS, Contestant, contestants

__all__ = [
    "KINDS",
    "PEERS",
    "Contestant",
    "Settings",
    "bench",
    "contestants",
    "matmul_ceiling",
]
