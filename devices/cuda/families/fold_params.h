// Parameters of the kernels of fold.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Axes of an operand, the outermost first, with strides in bytes.
struct Axes {
  static constexpr int most = 8;
  long long count, size[most], stride[most];
};

// `rows` results, in the order of the axes `kept`, each of the n points of the axes `reduced`.
struct Folding {
  const char* from;
  char* to;  // dense
  long long rows, n;
  Axes kept, reduced;
  // Long rows are cut into `pieces` of `piece` points, a power of two times 1024, so that each is a subtree of the
  // row's tree. For each, `parts` stores 32 values, one for each lane.
  long long piece, pieces;
  char* parts;
  const char* in[3];  // other memory that rules access: neural.cuh
  char* out[4];
  double epsilon;
};

}  // namespace rill::cuda
