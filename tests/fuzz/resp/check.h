#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the fuzzer's process, so that it keeps the input, when a property does not hold. Works with NDEBUG.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
