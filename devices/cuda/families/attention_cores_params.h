// The kernels of attention_cores.cuh have the parameters of those of attention.cuh.
#pragma once
