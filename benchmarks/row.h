// A row of rows.py as a Google Benchmark: rows.cpp and data.cpp register their rows by it.
#pragma once
#include <benchmark/benchmark.h>

#include <exception>

inline void run_row(benchmark::State& state, void (*row)(benchmark::State&)) {
  try {
    row(state);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

// Wall time: kernels run on a pool of threads.
#define ROW(name, ...) \
  BENCHMARK_CAPTURE(run_row, name, [](benchmark::State& state) { __VA_ARGS__; })->Name(#name)->UseRealTime()
