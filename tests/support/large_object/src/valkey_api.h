#pragma once

// The module API is a set of function pointers that valkeymodule.h defines in whichever file includes it: module.cpp
// defines them, all others only declare them.
#ifndef LARGE_OBJECT_DEFINES_VALKEY_API
#define VALKEYMODULE_API extern
#endif
#include <valkeymodule.h>
