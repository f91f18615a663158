#include <rdma/fabric.h>

// One step more, so that the pair in FAKE_VERSION is expanded before FI_VERSION counts its arguments.
#define MAKE_VERSION(...) FI_VERSION(__VA_ARGS__)

uint32_t fi_version(void) { return MAKE_VERSION(FAKE_VERSION); }
