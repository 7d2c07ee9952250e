// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// Units of time, and the few kernel types that the iterators need.
#pragma once

#include <sluice/types.h>

#define SECOND 1000000000ull
#define MILLISECOND 1000000ull
