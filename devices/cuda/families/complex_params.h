// The parameter of the kernels of complex.cuh is a Space.
#pragma once
