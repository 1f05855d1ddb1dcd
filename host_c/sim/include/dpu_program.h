/* A part of the SDK's interface, which here is all in one file. */
#include "dpu.h"
