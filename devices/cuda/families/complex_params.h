// The kernels of complex.cuh take a Space.
#pragma once
