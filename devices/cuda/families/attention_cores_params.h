// The kernels of attention_cores.cuh take what those of attention.cuh take.
#pragma once
