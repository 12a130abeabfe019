// Parameters of the kernels of matrix.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// A batch of dense matrices a, rows x columns, and with some ops b, rows x right.
struct MatrixBatch {
  const char *a, *b;
  char* out[3];
  long long count, rows, columns, right;
  char* work;      // workspace: for each warp, `room` numbers of the wide type
  long long room;  // see wide_t
  int lower, adjoint, unit, full, vectors;
  double cutoff;  // pinv, lstsq: singular values up to this fraction of the largest are treated as 0
  void* fault;    // Gpu::fault_slot()
  int code;
};

}  // namespace rill::cuda
