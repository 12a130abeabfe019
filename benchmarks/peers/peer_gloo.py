"""torch.distributed's all_reduce by gloo, as one rank: what collectives.py starts. python peer_gloo.py RANK SIZE PORT MOST"""

import json
import os
import statistics
import sys
import time

rank, size, port, most = map(int, sys.argv[1:5])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo", rank=rank, world_size=size)
count = 4
while count <= most:
    calls = max(2, min(500, (16 << 20) // count))
    x = torch.full((count // 4,), 1.5)
    dist.all_reduce(x)
    times = []
    for _ in range(7):
        x.fill_(1.5)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(x)
        times.append((time.perf_counter() - begin) / calls * 1e6)
    if rank == 0:
        print(json.dumps({"row": f"allreduce_{count}", "peer": "gloo", "median_us": statistics.median(times)}), flush=True)
    count *= 8
dist.destroy_process_group()
