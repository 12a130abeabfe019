"""train_mlp, train_cnn and train_block under torch's DistributedDataParallel by gloo, as one rank of one thread, each with its part
of the batch: what collectives.py starts. python peer_ddp.py RANK SIZE PORT"""

import json
import os
import statistics
import sys
import time

rank, size, port = map(int, sys.argv[1:4])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.argv = sys.argv[:1]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import peer_torch as peer  # noqa: E402

torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=size)


class Model(torch.nn.Module):
    def __init__(self, loss, parameters):
        super().__init__()
        self.loss, self.p = loss, torch.nn.ParameterList(torch.nn.Parameter(p.detach()) for p in parameters)

    def forward(self, x, y):
        return self.loss(list(self.p), x, y)


def cnn_loss(p, x, y):
    h = F.max_pool2d(torch.relu(F.conv2d(x, p[0], p[1], padding=2)), 2)
    h = F.max_pool2d(torch.relu(F.conv2d(h, p[2], p[3], padding=2)), 2)
    return F.cross_entropy(torch.relu(h.flatten(1) @ p[4] + p[5]) @ p[6] + p[7], y)


def images(count):
    return torch.randn(count, 1, 28, 28).to(memory_format=torch.channels_last)


ROWS = {
    "dp_mlp": (peer.mlp_loss, peer.mlp_parameters, lambda: torch.randn(128 // size, 784), 128),
    "dp_cnn": (cnn_loss, lambda: peer.cnn()[1], lambda: images(64 // size), 64),
    "dp_block": (lambda p, x, y: peer.block_loss(p, x), peer.block_parameters, lambda: torch.randn(8 // size, 128, 256), 8),
}
for row, (loss, parameters, inputs, batch) in ROWS.items():
    for name, wrap in {"torch DDP": lambda m: m, "torch DDP, compiled": torch.compile}.items():
        model = wrap(DistributedDataParallel(Model(loss, parameters())))
        rule = torch.optim.SGD(model.parameters(), lr=0.01)
        x, y = inputs(), torch.randint(10, (batch // size,))

        def step():
            rule.zero_grad(set_to_none=True)
            value = model(x, y)
            value.backward()
            rule.step()
            return value.item()

        for _ in range(20):
            step()
        times = []
        for i in range(60):
            if i % 10 == 0:
                dist.barrier()
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e6)
        if rank == 0:
            print(json.dumps({"row": row, "peer": name, "median_us": statistics.median(times)}), flush=True)
dist.destroy_process_group()
