"""Our models' speed beside the same networks of other libraries, in one run.

`bench(vit_config("ViT-S/16"), Settings(batch_size=4))["inference"]["ratio"]`
"""

from vitedu.bench.measure import KINDS, Settings, bench
from vitedu.bench.peers import PEERS, Contestant, contestants
from vitedu.bench.turns import matmul_ceiling

__all__ = [
    "KINDS",
    "PEERS",
    "Contestant",
    "Settings",
    "bench",
    "contestants",
    "matmul_ceiling",
]
